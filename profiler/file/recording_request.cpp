#include "profiler/file/recording_request.hpp"

#include <fmt/format.h>

#include <charconv>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kOutWord = "OOMB_PROFILE_OUT";
constexpr const char* kOperationsWord = "OOMB_PROFILE_OPERATIONS";
constexpr const char* kCallsWord = "OOMB_PROFILE_API";
constexpr const char* kStartAfterWord = "OOMB_PROFILE_START_AFTER";
constexpr const char* kSecondsWord = "OOMB_PROFILE_SECONDS";
constexpr const char* kStepsWord = "OOMB_PROFILE_STEPS";
constexpr const char* kStepRangeWord = "OOMB_PROFILE_STEP_RANGE";

template <class T>
std::optional<T> number_of(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<double> seconds_of(const char* name, const char* text) {
    if (text == nullptr || *text == '\0') {
        return std::nullopt;
    }
    const std::optional<double> value = number_of<double>(text);
    if (!value) {
        fail<UsageError>("{}: found \"{}\", allowed is a number of seconds", name, text);
    }
    return value;
}

}  // namespace

StepRange parse_steps(std::string_view flag, std::string_view text) {
    const std::size_t colon = text.find(':');
    const auto first = number_of<std::int64_t>(text.substr(0, colon));
    const auto last = colon == std::string_view::npos ? first : number_of<std::int64_t>(text.substr(colon + 1));
    if (!first || !last || *first < 1 || *last < *first) {
        fail<UsageError>("{}: found \"{}\", allowed is A:B, the first and the last step, counted from 1 (2:3)", flag,
                         text);
    }
    return {*first, *last};
}

std::string to_text(const StepRange& steps) {
    return fmt::format("{}:{}", steps.first, steps.last);
}

void check_request(const RecordingRequest& request) {
    const RecordingWindow& window = request.window;
    if (window.seconds && !(*window.seconds > 0)) {
        fail<UsageError>("--seconds: found {}, allowed is a number above 0", *window.seconds);
    }
    if (!(window.start_after_seconds >= 0)) {
        fail<UsageError>("--start-after: found {}, allowed is a number from 0", window.start_after_seconds);
    }
    if (window.steps && (window.seconds || window.start_after_seconds > 0)) {
        fail<UsageError>(
            "--steps with --seconds or --start-after: a recording is of steps or of a time; leave one out");
    }
    if (!window.step_range.empty() && !window.steps) {
        fail<UsageError>("--step-range {} without --steps A:B, which says which of them to record", window.step_range);
    }
}

std::vector<std::string> environment_of(const RecordingRequest& request, const std::filesystem::path& out) {
    const RecordingWindow& window = request.window;
    const auto word = [](const char* name, const std::string& value) { return std::string(name) + "=" + value; };
    const auto flag = [](bool on) { return std::string(on ? "1" : "0"); };
    return {word(kOutWord, std::filesystem::absolute(out).string()),
            word(kOperationsWord, flag(request.operations)),
            word(kCallsWord, flag(request.calls)),
            word(kStartAfterWord, fmt::format("{}", window.start_after_seconds)),
            word(kSecondsWord, window.seconds ? fmt::format("{}", *window.seconds) : ""),
            word(kStepsWord, window.steps ? to_text(*window.steps) : ""),
            word(kStepRangeWord, window.step_range)};
}

ReceivedRequest request_of_environment(const std::function<const char*(const char*)>& word) {
    const auto text = [&](const char* name) {
        const char* value = word(name);
        return std::string(value == nullptr ? "" : value);
    };
    ReceivedRequest received{.out = text(kOutWord).empty() ? "oomb.profile" : text(kOutWord), .request = {}};
    RecordingRequest& request = received.request;
    request.operations = text(kOperationsWord) == "1";
    request.calls = text(kCallsWord) == "1";
    request.window.start_after_seconds = seconds_of(kStartAfterWord, word(kStartAfterWord)).value_or(0);
    request.window.seconds = seconds_of(kSecondsWord, word(kSecondsWord));
    if (const std::string steps = text(kStepsWord); !steps.empty()) {
        request.window.steps = parse_steps(kStepsWord, steps);
    }
    request.window.step_range = text(kStepRangeWord);
    return received;
}

}  // namespace oomb::profiler
