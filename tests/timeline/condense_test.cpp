#include "timeline/condense.hpp"

#include <doctest/doctest.h>

#include "tests/timeline/lanes.hpp"

namespace oomb::testing {
namespace {

TEST_CASE("few enough slices are drawn as they are") {
    const timeline::Timeline made = random_timeline(1, 30);
    const auto drawn = condense(made, 1000);
    CHECK(drawn.resolution_ns == 0);
    for (std::size_t engine = 0; engine < made.lanes.size(); ++engine) {
        REQUIRE(drawn.lanes[engine].size() == made.lanes[engine].size());
        for (std::size_t i = 0; i < made.lanes[engine].size(); ++i) {
            CHECK(drawn.lanes[engine][i].begin_ns == made.lanes[engine][i].begin_ns);
            CHECK(drawn.lanes[engine][i].operations == 1);
        }
    }
}

TEST_CASE("too many are joined: none is lost, long ones stay, the limit holds") {
    timeline::Timeline made;
    std::int64_t at = 0;
    for (int i = 0; i < 5000; ++i) {
        const std::int64_t length = i % 100 == 50 ? 1'000'000 : 500;
        const auto kind = i % 3 == 0 ? schedule::Kind::kAttention : schedule::Kind::kLinearDown;
        made.add(record(schedule::Engine::kCompute, kind, at, at + length, 7));
        at += length + 10;
    }
    const auto drawn = condense(made, 400);
    const auto& lane = drawn.lanes[static_cast<std::size_t>(schedule::Engine::kCompute)];
    CHECK(std::ssize(lane) <= 400);
    CHECK(drawn.resolution_ns > 500);
    std::int64_t operations = 0, bytes = 0, alone = 0;
    for (const auto& slice : lane) {
        operations += slice.operations;
        bytes += slice.bytes;
        alone += slice.operations == 1 && slice.end_ns - slice.begin_ns == 1'000'000 ? 1 : 0;
        CHECK((slice.operations == 1 || slice.end_ns - slice.begin_ns < 2 * drawn.resolution_ns));
        if (slice.operations > 2) {
            CHECK(slice.group == timeline::Group::kLinear);  // two of three are
        }
    }
    CHECK(operations == 5000);
    CHECK(bytes == 5000 * 7);
    CHECK(alone == 50);
}

TEST_CASE("a limit that cannot be kept ends too") {
    const auto drawn = condense(random_timeline(2, 100), 1);
    CHECK(drawn.resolution_ns > 0);
}

}  // namespace
}  // namespace oomb::testing
