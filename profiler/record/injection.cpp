// The entries of the shared library that the CUDA driver loads at a program's first CUDA call (CUDA_INJECTION64_PATH),
// and that `oomb-profile run` loads for counters.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "profiler/file/profile_writer.hpp"
#include "profiler/record/counter_entries.hpp"
#include "profiler/record/counter_recording.hpp"
#include "profiler/record/explain.hpp"
#include "profiler/record/session.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/version.hpp"

namespace oomb::profiler {
namespace {

Session* session = nullptr;  // never destroyed: at_exit finishes it
CounterRecording* counters = nullptr;

std::string name_of_this_program() {
    return fmt::format("oomb-profile {} ({})", build_info().version, build_info().commit);
}

std::string command_of_this_process() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    while (!text.empty() && text.back() == '\0') {
        text.pop_back();
    }
    for (char& letter : text) {
        letter = letter == '\0' ? ' ' : letter;
    }
    return text;
}

void at_exit() {
    try {
        session->finish();
    } catch (const std::exception& error) {
        std::fputs(fmt::format("oomb-profile: {}\n", error.what()).c_str(), stderr);
    }
}

// So that `oomb-profile run`, and who finds the file, learn why nothing is in it.
void leave_note(const SessionOptions& options, const std::string& reason) {
    try {
        ProfileWriter writer(options.out,
                             {.program = options.program, .command = options.command, .process = getpid()});
        writer.add(Note{writer.intern(reason)});
        writer.close();
    } catch (const std::exception&) {  // stderr has it
    }
}

void name_by_process(SessionOptions& options) {
    options.out += fmt::format(".{}", getpid());
}

SessionOptions options_of_environment() {
    const ReceivedRequest received = request_of_environment([](const char* name) { return std::getenv(name); });
    SessionOptions options{.out = received.out,
                           .program = name_of_this_program(),
                           .command = command_of_this_process(),
                           .request = received.request};
    if (std::filesystem::exists(options.out)) {  // another process of the same run was first
        name_by_process(options);
    }
    return options;
}

Session* make_session(SessionOptions& options) {
    const std::filesystem::path first = options.out;
    try {
        return new Session(options);
    } catch (const FileError&) {
        std::error_code ignored;
        if (!std::filesystem::exists(first, ignored)) {
            throw;
        }
    }
    name_by_process(options);  // another process made the file after it was looked for
    return new Session(options);
}

int begin() {
    if (session != nullptr) {
        return 1;
    }
    SessionOptions options;
    try {
        options = options_of_environment();
        session = make_session(options);
        std::atexit(at_exit);
    } catch (const std::exception& error) {
        std::fputs(fmt::format("oomb-profile: not recorded: {}\n", error.what()).c_str(), stderr);
        if (!options.out.empty()) {
            leave_note(options, error.what());
        }
    }
    return 1;
}

int telling_failure(const auto& work) {
    try {
        work();
        return 1;
    } catch (const std::exception& error) {
        std::fputs(fmt::format("oomb-profile: counters: {}\n", error.what()).c_str(), stderr);
        return 0;
    }
}

int begin_counters(const char* out) {
    return telling_failure([&] {
        const Versions versions = versions_here();
        counters = new CounterRecording(out, {.program = name_of_this_program(),
                                              .command = command_of_this_process(),
                                              .process = getpid(),
                                              .cupti_version = versions.cupti,
                                              .driver_version = versions.driver});
    });
}

int end_counters() {
    return telling_failure([] { std::unique_ptr<CounterRecording>(std::exchange(counters, nullptr))->finish(); });
}

}  // namespace
}  // namespace oomb::profiler

// The name is the driver's. 1: loaded. The program goes on whatever happens here.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    return oomb::profiler::begin();
}

extern "C" __attribute__((visibility("default"))) int oomb_begin_counters(const char* out) {
    return oomb::profiler::begin_counters(out);
}

extern "C" __attribute__((visibility("default"))) int oomb_end_counters() {
    return oomb::profiler::end_counters();
}
