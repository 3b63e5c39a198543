#include "profiler/file/recording_request.hpp"

#include <doctest/doctest.h>

#include <map>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

ReceivedRequest received(const std::vector<std::string>& words) {
    std::map<std::string, std::string> environment;
    for (const std::string& word : words) {
        environment[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
    return request_of_environment([&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
    });
}

std::string fault_of(const RecordingRequest& request) {
    try {
        check_request(request);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("steps are A:B or A, from 1") {
    CHECK(parse_steps("--steps", "2:5") == StepRange{2, 5});
    CHECK(parse_steps("--steps", "3") == StepRange{3, 3});
    CHECK(to_text({2, 5}) == "2:5");
    for (const char* text :
         {"", ":", "2:", ":2", "0:3", "-1:2", "3:2", "1:2:3", "a:b", "1.5", "99999999999999999999"}) {
        CAPTURE(text);
        CHECK_THROWS_WITH_AS(parse_steps("--steps", text), doctest::Contains("--steps: found"), UsageError);
    }
}

TEST_CASE("a request goes through the environment unchanged") {
    const RecordingRequest requests[] = {{},
                                         {.operations = true, .calls = true, .window = {}},
                                         {.window = {.start_after_seconds = 0.1, .seconds = 1e-3}},
                                         {.calls = true, .window = {.steps = StepRange{2, 9}, .step_range = "a = b"}}};
    for (const RecordingRequest& request : requests) {
        const ReceivedRequest back = received(environment_of(request, "/tmp/x.profile"));
        CHECK(back.request == request);
        CHECK(back.out == "/tmp/x.profile");
    }
    CHECK(received({}).request == RecordingRequest{});
    CHECK(received({}).out == "oomb.profile");
    CHECK_THROWS_WITH_AS(received({"OOMB_PROFILE_SECONDS=long"}), doctest::Contains("OOMB_PROFILE_SECONDS"),
                         UsageError);
    CHECK_THROWS_AS(received({"OOMB_PROFILE_STEPS=0"}), UsageError);
}

TEST_CASE("a window is of steps or of a time") {
    RecordingRequest request;
    CHECK(fault_of(request).empty());
    CHECK(request.window.everything());
    CHECK_FALSE(request.window.begins_late());
    request.window.seconds = 2.0;
    CHECK(fault_of(request).empty());
    CHECK_FALSE(request.window.begins_late());
    request.window.start_after_seconds = 1.0;
    CHECK(fault_of(request).empty());
    CHECK(request.window.begins_late());
    request.window.steps = StepRange{1, 2};
    CHECK(fault_of(request).find("leave one out") != std::string::npos);
    CHECK(fault_of({.window = {.seconds = 0.0}}).find("--seconds: found 0") == 0);
    CHECK(fault_of({.window = {.start_after_seconds = -1}}).find("--start-after: found -1") == 0);
    CHECK(fault_of({.window = {.step_range = "step"}}).find("--step-range step without") == 0);
}

}  // namespace oomb::profiler
