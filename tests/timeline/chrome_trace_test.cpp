#include "timeline/chrome_trace.hpp"

#include <doctest/doctest.h>

#include "tests/timeline/lanes.hpp"

namespace oomb::testing {
namespace {

using schedule::Engine;
using schedule::Kind;

std::vector<Json> events_of(const Json& trace, const std::string& phase) {
    std::vector<Json> found;
    for (const Json& event : trace.at("traceEvents")) {
        if (event.at("ph") == phase) {
            found.push_back(event);
        }
    }
    return found;
}

TEST_CASE("one complete event per operation and section, a counter per memory point") {
    timeline::Timeline made;
    made.add(record(Engine::kCompute, Kind::kLinearDown, 0, 1500));
    made.add(record(Engine::kHostToDevice, Kind::kFetch, 250, 1251, 4096));
    made.memory.push_back({"GPU memory", {"a", "b"}, {{0, {1, 2}}, {700, {3, 4}}}, 10});
    const Json trace = Json::parse(chrome_trace(made));
    const auto slices = events_of(trace, "X");
    REQUIRE(slices.size() == 3);
    CHECK(slices[0].at("name") == "linear_down");
    CHECK(slices[0].at("dur") == 1.5);
    CHECK(slices[1].at("ts") == 0.25);
    CHECK(slices[1].at("dur") == 1.001);
    CHECK(slices[1].at("args").at("bytes") == 4096);
    CHECK(slices[2].at("name") == "fill 0");
    const auto counters = events_of(trace, "C");
    REQUIRE(counters.size() == 2);
    CHECK(counters[1].at("args") == Json{{"a", 3}, {"b", 4}});
    CHECK(events_of(trace, "M").size() == 6);
}

}  // namespace
}  // namespace oomb::testing
