#pragma once
// Another program with the recorder in it.

#include <filesystem>
#include <string>
#include <vector>

#include "profiler/file/recording_request.hpp"

namespace oomb::profiler {

// The shared library that a CUDA program loads at its first call (CUDA_INJECTION64_PATH), and CUPTI's, to which its
// NVTX marks go (NVTX_INJECTION64_PATH).
struct Recorder {
    std::filesystem::path injection, cupti;
    void* library;  // the first, as it is loaded here; never closed

    // One of its entries for us. Throws UnsupportedError where it has none of the name: it is of another version.
    template <class Function>
    Function* entry(const char* name) const {
        return reinterpret_cast<Function*>(find_entry(name));
    }

  private:
    void* find_entry(const char* name) const;
};

// Beside this program. Throws UnsupportedError: built without CUDA, or CUPTI cannot be loaded, with the reason.
Recorder find_recorder();

// Words of the environment: NAME=VALUE.
std::vector<std::string> recorder_environment(const Recorder& recorder, const std::filesystem::path& out,
                                              const RecordingRequest& request);

// Runs it, with these words over this program's environment, and waits. SIGINT goes to it alone (a terminal sends it to
// both); SIGTERM is passed on. Returns its exit code, or 128 + the number of the signal that ended it; 127 where there
// is no such program, 126 where it cannot be run. Throws Error when the system makes no process.
int run_command(const std::vector<std::string>& command, const std::vector<std::string>& environment);

}  // namespace oomb::profiler
