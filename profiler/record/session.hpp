#pragma once
// A recording of this process: from its construction to `finish`. CUPTI allows one at a time.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace oomb::profiler {

struct SessionOptions {
    std::filesystem::path out;  // must not exist
    std::string program;        // who records: "oomb-train 0.1.0 (commit)"
    std::string command;        // what is recorded
    bool operations =
        false;  // attribute work to operations (docs/profile-format.md); every CUDA call is recorded for that
    std::chrono::milliseconds period{1000};  // what is complete is written this often
};

class Session {
  public:
    // Throws FileError, UnsupportedError (the driver is older, another profiler is at work, no permission). Kinds of
    // records that the system refuses one by one become notes in the file.
    explicit Session(const SessionOptions& options);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();  // finishes, and says on stderr what failed

    // Writes what is there and closes the file; work that still runs on the device then has no time. After it CUPTI
    // may still call back: nothing happens. Throws FileError, also for what failed while the run went on.
    void finish();

  private:
    class Recorder;
    std::unique_ptr<Recorder> recorder_;
};

}  // namespace oomb::profiler
