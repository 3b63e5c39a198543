#include "simulator/cli/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime/core/error.hpp"

namespace oomb::simulator {
namespace {

volatile std::sig_atomic_t running_child = 0, caught_signal = 0;

void pass_on(int signal) {
    caught_signal = signal;
    if (running_child > 0) {
        kill(static_cast<pid_t>(running_child), signal);
    }
}

// Actions on the child's files, freed at the end.
class FileActions {
  public:
    explicit FileActions(const std::filesystem::path& errors) {
        posix_spawn_file_actions_init(&actions_);
        posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    }
    ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;
    const posix_spawn_file_actions_t* get() const { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_ = {};
};

std::string end_of(const std::filesystem::path& path) {
    constexpr std::ptrdiff_t kMost = 4096;
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.substr(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, std::ssize(text) - kMost)));
}

int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            fail<FileError>("waiting for a child: {}", std::strerror(errno));
        }
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

PassSignalsOn::PassSignalsOn() {
    caught_signal = 0;
    struct sigaction action = {};
    action.sa_handler = pass_on;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
}

PassSignalsOn::~PassSignalsOn() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
}

bool PassSignalsOn::interrupted() const {
    return caught_signal != 0;
}

ChildResult run_child(const std::vector<std::string>& arguments, const std::filesystem::path& scratch) {
    std::vector<std::string> words = arguments;
    std::vector<char*> pointers;
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    const std::filesystem::path errors = scratch / "stderr";
    const FileActions actions(errors);
    pid_t child = 0;
    const int status = posix_spawnp(&child, pointers[0], actions.get(), nullptr, pointers.data(), environ);
    if (status != 0) {
        fail<FileError>("{}: cannot be started: {}", arguments[0], std::strerror(status));
    }
    running_child = child;
    if (caught_signal != 0) {
        kill(child, static_cast<int>(caught_signal));
    }
    const int code = wait_for(child);
    running_child = 0;
    return {code, end_of(errors)};
}

}  // namespace oomb::simulator
