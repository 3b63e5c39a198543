#include "tests/simulator/plan_call.hpp"

#include <stdlib.h>

#include <algorithm>
#include <sstream>

#include "runtime/core/error.hpp"
#include "simulator/cli/run_plan.hpp"

namespace oomb::test {

PlanCall call_plan(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv{"oomb-plan"};
    for (const std::string& argument : arguments) {
        argv.push_back(argument.c_str());
    }
    std::ostringstream out, err;
    const int code = simulator::run_plan(static_cast<int>(argv.size()), argv.data(), out, err);
    return {code, out.str(), err.str()};
}

std::vector<std::string> words(const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> list;
    for (std::string word; in >> word;) {
        list.push_back(word);
    }
    return list;
}

std::vector<std::filesystem::path> model_files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(OOMB_SOURCE_DIR "/models")) {
        if (entry.path().extension() == ".json") {
            files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());
    require(files.size() >= 5, "models/ holds {} files", files.size());
    return files;
}

std::string model_file(const std::string& name) {
    return OOMB_SOURCE_DIR "/models/" + name + ".json";
}

TemporaryFolder::TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "oomb-plan-test-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "no temporary folder: {}", name);
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace oomb::test
