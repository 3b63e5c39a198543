#pragma once
// oomb-plan called in the test's own process.

#include <filesystem>
#include <string>
#include <vector>

namespace oomb::test {

struct PlanCall {
    int code = 0;
    std::string out;
    std::string err;
};

PlanCall call_plan(const std::vector<std::string>& arguments);

// The words of a line typed without quotes.
std::vector<std::string> words(const std::string& line);

// Config files in models/, sorted.
std::vector<std::filesystem::path> model_files();
std::string model_file(const std::string& name);  // "qwen2.5-7b" -> path

// An empty folder of this test process, removed at its end.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace oomb::test
