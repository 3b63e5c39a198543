#include "timeline/overlap.hpp"

#include <doctest/doctest.h>

#include "tests/timeline/lanes.hpp"

namespace oomb::testing {
namespace {

using schedule::Engine;
using schedule::Kind;
using timeline::overlap_within;

TEST_CASE("copies beside compute are hidden, beside nothing exposed") {
    timeline::Timeline made;
    made.add(record(Engine::kCompute, Kind::kLinearDown, 0, 100));
    made.add(record(Engine::kCompute, Kind::kAttention, 150, 200));
    made.add(record(Engine::kHostToDevice, Kind::kFetch, 80, 130, 5000));
    made.add(record(Engine::kDeviceToHost, Kind::kWriteBack, 120, 160, 700));
    const auto overlap = overlap_within(made, 0, 200);
    CHECK(overlap.total_ns == 200);
    CHECK(overlap.compute_ns == 150);
    CHECK(overlap.exposed_ns == 50);  // 100 to 150, both directions together
    CHECK(overlap.idle_ns == 0);
    CHECK(overlap.host_to_device.busy_ns == 50);
    CHECK(overlap.host_to_device.hidden_ns == 20);
    CHECK(overlap.host_to_device.exposed_ns == 30);
    CHECK(overlap.host_to_device.bytes == 5000);
    CHECK(overlap.device_to_host.hidden_ns == 10);
    CHECK(overlap.group_ns[static_cast<std::size_t>(timeline::Group::kLinear)] == 100);
    CHECK(overlap.group_ns[static_cast<std::size_t>(timeline::Group::kPages)] == 90);
}

// Nanosecond by nanosecond.
timeline::Overlap counted(const timeline::Timeline& made, std::int64_t begin, std::int64_t end) {
    const auto busy = [&](Engine engine, std::int64_t at) {
        for (const auto& slice : made.lane(engine)) {
            if (slice.begin_ns <= at && at < slice.end_ns) {
                return true;
            }
        }
        return false;
    };
    timeline::Overlap sum{.total_ns = end - begin};
    for (std::int64_t at = begin; at < end; ++at) {
        const bool compute = busy(Engine::kCompute, at), in = busy(Engine::kHostToDevice, at),
                   out = busy(Engine::kDeviceToHost, at);
        sum.compute_ns += compute;
        sum.exposed_ns += !compute && (in || out);
        sum.idle_ns += !compute && !in && !out;
        sum.host_to_device.hidden_ns += in && compute;
        sum.host_to_device.exposed_ns += in && !compute;
        sum.device_to_host.hidden_ns += out && compute;
        sum.device_to_host.exposed_ns += out && !compute;
    }
    return sum;
}

TEST_CASE("random lanes, any span: as counted, and compute, exposed and idle are all of it") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const timeline::Timeline made = random_timeline(seed, 40);
        const std::int64_t end = made.end_ns();
        for (const auto& [from, to] : {std::pair{std::int64_t{0}, end}, {end / 3, end / 2}, {end / 2, end / 2}}) {
            CAPTURE(seed);
            const auto found = overlap_within(made, from, to), expected = counted(made, from, to);
            CHECK(found.compute_ns == expected.compute_ns);
            CHECK(found.exposed_ns == expected.exposed_ns);
            CHECK(found.idle_ns == expected.idle_ns);
            CHECK(found.compute_ns + found.exposed_ns + found.idle_ns == found.total_ns);
            CHECK(found.host_to_device.hidden_ns == expected.host_to_device.hidden_ns);
            CHECK(found.host_to_device.exposed_ns == expected.host_to_device.exposed_ns);
            CHECK(found.device_to_host.hidden_ns == expected.device_to_host.hidden_ns);
            CHECK(found.device_to_host.exposed_ns == expected.device_to_host.exposed_ns);
        }
    }
}

TEST_CASE("sections: one per stage and chunk, together the step") {
    timeline::Timeline made;
    made.add(record(Engine::kCompute, Kind::kLinearDown, 10, 20, 0, schedule::Phase::kFill, 0));
    made.add(record(Engine::kCompute, Kind::kLinearDown, 25, 40, 0, schedule::Phase::kForward, 1));
    made.add(record(Engine::kCompute, Kind::kAttention, 40, 50, 0, schedule::Phase::kBackward, 1));
    made.add(record(Engine::kCompute, Kind::kAttention, 50, 55, 0, schedule::Phase::kForward, 1));
    made.add(record(Engine::kCompute, Kind::kOptimizer, 60, 70, 0, schedule::Phase::kOptimizer, 0));
    made.add(record(Engine::kDeviceToHost, Kind::kStoreState, 70, 90, 1, schedule::Phase::kOptimizer, 0));
    const auto sections = sections_of(made);
    REQUIRE(sections.size() == 3);
    CHECK(sections[0].begin_ns == 0);
    CHECK(sections[0].end_ns == 25);
    CHECK(sections[1].stage == timeline::Stage::kGradient);
    CHECK(sections[1].chunk == 1);
    CHECK(sections[1].end_ns == 60);
    CHECK(sections[2].stage == timeline::Stage::kOptimizer);
    CHECK(sections[2].end_ns == 90);
}

}  // namespace
}  // namespace oomb::testing
