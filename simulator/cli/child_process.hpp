#pragma once
// Another program, run to its end.

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace oomb::simulator {

struct ChildResult {
    int exit_code = 0;   // 128 + n where signal n ended it
    std::string errors;  // what it wrote on standard error, the last some thousand bytes
};

// While there is one, SIGINT and SIGTERM do not end this program: they are passed on to the child that runs, and
// remembered. One at a time.
class PassSignalsOn {
  public:
    PassSignalsOn();
    ~PassSignalsOn();
    PassSignalsOn(const PassSignalsOn&) = delete;
    PassSignalsOn& operator=(const PassSignalsOn&) = delete;
    bool interrupted() const;

  private:
    struct sigaction interrupt_ = {}, terminate_ = {};  // as they were
};

// Runs `arguments[0]`, a path or a name on the search path, and waits. Its standard output goes nowhere, its standard
// error to a file in `scratch`. Throws FileError where it cannot be started.
ChildResult run_child(const std::vector<std::string>& arguments, const std::filesystem::path& scratch);

}  // namespace oomb::simulator
