#include "profiler/cli/launch.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kInjection = "liboomb-profile-injection.so";

volatile pid_t child = 0;

void pass_on(int signal) {
    if (child > 0) {
        kill(child, signal);
    }
}

// Pointers to the words, and null behind them; the words outlive them.
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (const std::string& word : words) {
        pointers.push_back(const_cast<char*>(word.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
}

// This process's environment with words NAME=VALUE in place of what has their names.
std::vector<std::string> with_words(const std::vector<std::string>& words) {
    std::vector<std::string> all = words;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view old(*entry);
        const std::string_view name = old.substr(0, old.find('=') + 1);
        if (std::none_of(words.begin(), words.end(), [&](const std::string& word) { return word.starts_with(name); })) {
            all.emplace_back(old);
        }
    }
    return all;
}

}  // namespace

Recorder find_recorder() {
    const std::filesystem::path injection = std::filesystem::read_symlink("/proc/self/exe").parent_path() / kInjection;
    if (!std::filesystem::exists(injection)) {
        fail<UnsupportedError>(
            "recording needs {}, which is not beside this program: it was built without CUDA; build where the CUDA "
            "toolkit is (cmake --preset cuda)",
            injection.string());
    }
    void* library = dlopen(injection.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        fail<UnsupportedError>("{}: cannot be loaded: {}; CUPTI comes with the environment that setup/setup.sh makes",
                               injection.string(), dlerror());
    }
    Dl_info info{};
    void* symbol = dlsym(library, "cuptiGetVersion");
    if (symbol == nullptr || dladdr(symbol, &info) == 0) {
        fail<UnsupportedError>("{}: brings no CUPTI", injection.string());
    }
    return {injection, std::filesystem::weakly_canonical(info.dli_fname), library};
}

void* Recorder::find_entry(const char* name) const {
    void* found = dlsym(library, name);
    if (found == nullptr) {
        fail<UnsupportedError>("{}: has no {}; build it again with this program", injection.string(), name);
    }
    return found;
}

std::vector<std::string> recorder_environment(const Recorder& recorder, const std::filesystem::path& out,
                                              const RecordingRequest& request) {
    std::vector<std::string> words = environment_of(request, out);
    words.push_back("CUDA_INJECTION64_PATH=" + recorder.injection.string());
    words.push_back("NVTX_INJECTION64_PATH=" + recorder.cupti.string());
    return words;
}

int run_command(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    const std::vector<std::string> variables = with_words(environment);
    const std::vector<char*> words = pointers_to(command), values = pointers_to(variables);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, pass_on);
    child = fork();
    if (child < 0) {
        fail<Error>("no process could be made: {}", std::strerror(errno));
    }
    if (child == 0) {  // other threads may hold what allocates: nothing is made here
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        execvpe(words[0], words.data(), values.data());
        _exit(errno == ENOENT ? 127 : 126);  // as shells say it
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace oomb::profiler
