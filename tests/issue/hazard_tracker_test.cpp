// Waits of small hand-made sequences.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/issue/hazard_case.hpp"

namespace oomb::testing {
namespace {

using enum RegionName;

constexpr auto kCompute = Engine::kCompute, kIn = Engine::kHostToDevice, kOut = Engine::kDeviceToHost;
constexpr Tickets kNothing{};

schedule::RegionUse reads(RegionName region, std::int32_t slot = 0) {
    return {region, slot, Access::kRead};
}
schedule::RegionUse writes(RegionName region, std::int32_t slot = 0) {
    return {region, slot, Access::kWrite};
}
schedule::RegionUse begins(RegionName region) {
    return {region, 0, Access::kWrite, true, false};
}
Tickets after(Engine engine, Ticket ticket) {
    Tickets waits{};
    waits[static_cast<int>(engine)] = ticket;
    return waits;
}

TEST_CASE("a reader waits for the writer, a writer for reader and writer, across engines") {
    TrackerCase tracker;
    CHECK(tracker.operation(kIn, {writes(kTokens)}).waits == kNothing);
    CHECK(tracker.operation(kCompute, {reads(kTokens)}).waits == after(kIn, 1));
    CHECK(tracker.operation(kIn, {writes(kTokens)}).waits == after(kCompute, 1));
    CHECK(tracker.operation(kOut, {writes(kTokens)}).waits == after(kIn, 2));
}

TEST_CASE("one engine's order is enough for its own operations; readers don't wait for readers") {
    TrackerCase tracker;
    tracker.operation(kCompute, {writes(kTokens)});
    CHECK(tracker.operation(kCompute, {reads(kTokens)}).waits == kNothing);
    CHECK(tracker.operation(kCompute, {writes(kTokens)}).waits == kNothing);
    CHECK(tracker.operation(kOut, {reads(kTokens)}).waits == after(kCompute, 3));
    CHECK(tracker.operation(kCompute, {reads(kTokens)}).waits == kNothing);
    CHECK(tracker.operation(kIn, {reads(kTokens)}).waits == after(kCompute, 3));
}

TEST_CASE("slots, frames and tiers are buffers of their own") {
    TrackerCase tracker;
    tracker.operation(kIn, {writes(kTokens, 0)}, {{Tier::kHbm, 0, Access::kWrite}});
    CHECK(tracker.operation(kCompute, {reads(kTokens, 1)}, {{Tier::kHbm, 1, Access::kRead}}).waits == kNothing);
    CHECK(tracker.operation(kCompute, {}, {{Tier::kHost, 0, Access::kWrite}}).waits == kNothing);
    CHECK(tracker.operation(kCompute, {}, {{Tier::kHbm, 0, Access::kRead}}).waits == after(kIn, 1));
    CHECK_THROWS(tracker.operation(kCompute, {writes(kTokens, 2)}));
    CHECK_THROWS(tracker.operation(kCompute, {}, {{Tier::kHbm, 4, Access::kRead}}));
}

TEST_CASE("a region that begins waits for whoever used its bytes under another name") {
    TrackerCase tracker;
    tracker.operation(kIn, {begins(kNormed)});
    tracker.operation(kOut, {reads(kNormed)});
    const Tracked reuse = tracker.operation(kCompute, {begins(kQkv)});
    CHECK(reuse.waits == after(kOut, 1));  // and through it for the copy before
    CHECK(tracker.operation(kIn, {begins(kNormed)}).waits == after(kCompute, 1));
}

TEST_CASE("waits that follow from others are dropped") {
    TrackerCase tracker;
    tracker.operation(kIn, {writes(kTokens, 0)});
    tracker.operation(kCompute, {reads(kTokens, 0), writes(kTokens, 1)});
    // Both buffers ask for a wait; that for compute includes the copy before it.
    CHECK(tracker.operation(kOut, {reads(kTokens, 0), reads(kTokens, 1)}).waits == after(kCompute, 1));
    // This engine has waited already.
    CHECK(tracker.operation(kOut, {reads(kTokens, 0), reads(kTokens, 1)}).waits == kNothing);
    // The write is after both readers; that compute's reader is done follows from the copy out.
    CHECK(tracker.operation(kIn, {writes(kTokens, 0)}).waits == after(kOut, 2));
}

TEST_CASE("its records are those of the frames") {
    CHECK(issue::HazardTracker(hazard_plan()).table_bytes() == 8 * kFrameAccessRecord_bytes);
}

}  // namespace
}  // namespace oomb::testing
