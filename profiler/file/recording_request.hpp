#pragma once
// What is to be recorded: asked on a command line, and told to the recorder in another process through its environment.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oomb::profiler {

// Steps counted from 1, both ends included.
struct StepRange {
    std::int64_t first = 1, last = 1;
    bool operator==(const StepRange&) const = default;
};

// "A:B", or "A" for A:A. `flag` is named in the message. Throws UsageError: no numbers, below 1, or the end before the
// begin.
StepRange parse_steps(std::string_view flag, std::string_view text);
std::string to_text(const StepRange& steps);

// The part of a program's life that is recorded; without any of these all of it.
struct RecordingWindow {
    double start_after_seconds = 0;       // from the recorder's start, CUDA's first call
    std::optional<double> seconds = {};   // then for so long
    std::optional<StepRange> steps = {};  // or: from the begin of one step to the end of another
    std::string step_range = {};          // steps are NVTX ranges of this name, counted; empty: those of oomb-train
    bool operator==(const RecordingWindow&) const = default;

    bool begins_late() const { return start_after_seconds > 0 || steps.has_value(); }
    bool everything() const { return *this == RecordingWindow{}; }
};

struct RecordingRequest {
    bool operations = false;  // attribute work to operations (docs/profile-format.md); CUDA calls are recorded for that
    bool calls = false;       // write every call of CUDA's runtime and driver
    RecordingWindow window = {};
    bool operator==(const RecordingRequest&) const = default;
};

// Throws UsageError where parts of the window exclude one another. The flags named are those of oomb-profile run.
void check_request(const RecordingRequest& request);

// NAME=VALUE words for the environment of a program that is to be recorded to `out`.
std::vector<std::string> environment_of(const RecordingRequest& request, const std::filesystem::path& out);

struct ReceivedRequest {
    std::filesystem::path out;
    RecordingRequest request;
};
// `word` gives a variable's value, or null (std::getenv). What is not there has its default; the file is "oomb.profile"
// then. Throws UsageError for a value that environment_of does not write.
ReceivedRequest request_of_environment(const std::function<const char*(const char*)>& word);

}  // namespace oomb::profiler
