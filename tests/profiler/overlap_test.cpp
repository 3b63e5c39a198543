#include "profiler/analysis/overlap.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

constexpr std::int64_t kStart_ns = 5;
constexpr std::int64_t kLength_ns = 120;

struct Ticks {
    std::array<bool, kLength_ns> compute{};
    std::array<std::array<bool, kLength_ns>, kCopyKinds> copies{};
};

// One nanosecond after another: what ran then?
DeviceOverlap by_counting(const Ticks& ticks) {
    DeviceOverlap found;
    std::int64_t first = kLength_ns, last = 0;
    const auto any_copy = [&](std::int64_t t) {
        return std::any_of(ticks.copies.begin(), ticks.copies.end(), [&](const auto& kind) { return kind[t]; });
    };
    for (std::int64_t t = 0; t < kLength_ns; ++t) {
        if (ticks.compute[t] || any_copy(t)) {
            first = std::min(first, t);
            last = t + 1;
        }
    }
    for (std::int64_t t = first; t < last; ++t) {
        found.compute_ns += ticks.compute[t] ? 1 : 0;
        found.exposed_ns += !ticks.compute[t] && any_copy(t) ? 1 : 0;
        found.idle_ns += !ticks.compute[t] && !any_copy(t) ? 1 : 0;
        for (std::size_t kind = 0; kind < ticks.copies.size(); ++kind) {
            DirectionTime& d = found.directions[kind];
            const bool copies = ticks.copies[kind][t];
            d.busy_ns += copies ? 1 : 0;
            d.hidden_ns += copies && ticks.compute[t] ? 1 : 0;
            d.exposed_ns += copies && !ticks.compute[t] ? 1 : 0;
            d.idle_ns += copies ? 0 : 1;
        }
    }
    found.span = {kStart_ns + first, kStart_ns + last};
    return found;
}

void mark(std::array<bool, kLength_ns>& ticks, std::int64_t begin, std::int64_t end) {
    std::fill(ticks.begin() + (begin - kStart_ns), ticks.begin() + (end - kStart_ns), true);
}

void check_equal(const DeviceOverlap& found, const DeviceOverlap& expected) {
    CHECK(found.span == expected.span);
    CHECK(found.compute_ns == expected.compute_ns);
    CHECK(found.exposed_ns == expected.exposed_ns);
    CHECK(found.idle_ns == expected.idle_ns);
    for (std::size_t kind = 0; kind < found.directions.size(); ++kind) {
        CHECK(found.directions[kind].busy_ns == expected.directions[kind].busy_ns);
        CHECK(found.directions[kind].hidden_ns == expected.directions[kind].hidden_ns);
        CHECK(found.directions[kind].exposed_ns == expected.directions[kind].exposed_ns);
        CHECK(found.directions[kind].idle_ns == expected.directions[kind].idle_ns);
    }
}

// Kernels, memsets and copies that overlap as they like, with zero-length ones and synchronisation among them.
std::vector<Record> random_records(Random& random, std::uint32_t device, Ticks& ticks) {
    std::vector<Record> records;
    for (std::int64_t i = random_below(random, 30) + 1; i > 0; --i) {
        const std::int64_t begin = kStart_ns + random_below(random, kLength_ns);
        const std::int64_t end =
            begin + random_below(random, std::min<std::int64_t>(20, kStart_ns + kLength_ns - begin) + 1);
        const Place place{device, 1, static_cast<std::uint32_t>(random_below(random, 3))};
        switch (random_below(random, 4)) {
            case 0:
                records.push_back(Kernel{.begin_ns = begin, .end_ns = end, .place = place});
                mark(ticks.compute, begin, end);
                break;
            case 1:
                records.push_back(Memset{.begin_ns = begin, .end_ns = end, .place = place});
                mark(ticks.compute, begin, end);
                break;
            case 2:
                records.push_back(
                    Synchronization{.begin_ns = begin, .end_ns = end, .kind = SynchronizationKind::kContext});
                break;
            default:
                const auto kind = random_value<CopyKind>(random);
                records.push_back(Copy{.begin_ns = begin, .end_ns = end, .place = place, .kind = kind, .bytes = 10});
                mark(ticks.copies[static_cast<std::size_t>(kind)], begin, end);
        }
    }
    return records;
}

}  // namespace

TEST_CASE("overlap of random intervals is that of counting every nanosecond, device by device") {
    Random random(3);
    std::int64_t hidden = 0, exposed = 0, idle = 0;
    for (int round = 0; round < 2000; ++round) {
        Ticks ticks[2];
        std::vector<Record> records = random_records(random, 0, ticks[0]);
        const std::vector<Record> others = random_records(random, 5, ticks[1]);
        records.insert(records.end(), others.begin(), others.end());
        std::shuffle(records.begin(), records.end(), random);
        for (const DeviceOverlap& found : overlap_of(profile_of(records))) {
            if (found.span_ns() > 0) {  // else only zero-length work, which no nanosecond shows
                check_equal(found, by_counting(ticks[found.device == 0 ? 0 : 1]));
            }
            CHECK(found.compute_ns + found.exposed_ns + found.idle_ns == found.span_ns());
            hidden += found.directions[1].hidden_ns;
            exposed += found.exposed_ns;
            idle += found.idle_ns;
        }
    }
    CHECK(hidden > 0);
    CHECK(exposed > 0);
    CHECK(idle > 0);
}

TEST_CASE("a worked example, by hand") {
    // compute 100..200 and 250..300; in 150..270 (hidden 50 + 20, exposed 50); out 260..320 (hidden 40, exposed 20)
    const Profile profile = profile_of(
        {Kernel{.begin_ns = 100, .end_ns = 180}, Kernel{.begin_ns = 140, .end_ns = 200},
         Memset{.begin_ns = 250, .end_ns = 300},
         Copy{.begin_ns = 150, .end_ns = 270, .kind = CopyKind::kHostToDevice, .bytes = 600, .pieces = 3},
         Copy{.begin_ns = 260, .end_ns = 320, .kind = CopyKind::kDeviceToHost, .bytes = 7},
         Synchronization{.begin_ns = 200, .end_ns = 260, .kind = SynchronizationKind::kStream},
         Synchronization{.begin_ns = 100, .end_ns = 320, .kind = SynchronizationKind::kStreamWaitsForEvent}});
    const std::vector<DeviceOverlap> devices = overlap_of(profile);
    REQUIRE(devices.size() == 1);
    CHECK(devices[0].span_ns() == 220);
    CHECK(devices[0].compute_ns == 150);
    CHECK(devices[0].exposed_ns == 70);
    CHECK(devices[0].idle_ns == 0);
    const DirectionTime& in = devices[0].directions[static_cast<std::size_t>(CopyKind::kHostToDevice)];
    CHECK(in.copies == 1);
    CHECK(in.pieces == 3);
    CHECK(in.bytes == 600);
    CHECK(in.hidden_ns == 70);
    CHECK(in.exposed_ns == 50);
    CHECK(in.idle_ns == 100);
    const std::vector<Gap> gaps = longest_gaps(profile, 0, 5);
    REQUIRE(gaps.size() == 1);
    CHECK(gaps[0].time == timeline::Interval{200, 250});
    CHECK(gaps[0].host_to_device_ns == 50);
    CHECK(gaps[0].device_to_host_ns == 0);
    CHECK(gaps[0].synchronization_ns == 50);
}

TEST_CASE("gaps are what the union of compute leaves between its ends, the longest first") {
    Random random(4);
    for (int round = 0; round < 300; ++round) {
        Ticks ticks;
        const Profile profile = profile_of(random_records(random, 0, ticks));
        std::vector<timeline::Interval> compute;
        for (const Kernel& kernel : profile.kernels) {
            compute.push_back({kernel.begin_ns, kernel.end_ns + 1});  // so that zero-length ones are seen
        }
        for (const Memset& memset : profile.memsets) {
            compute.push_back({memset.begin_ns, memset.end_ns + 1});
        }
        const timeline::Intervals all = timeline::union_of(compute);
        const std::vector<Gap> gaps = longest_gaps(profile, 0, 1000);
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < gaps.size(); ++i) {
            CHECK((i == 0 || gaps[i].time.end - gaps[i].time.begin <= gaps[i - 1].time.end - gaps[i - 1].time.begin));
            sum += gaps[i].time.end - gaps[i].time.begin - 1;
        }
        // Each is one nanosecond shorter among the widened: those of one nanosecond closed.
        CHECK((all.empty() ? 0 : all.back().end - all.front().begin - length(all)) == sum);
    }
}

TEST_CASE("sets of intervals: union, difference, intersection by counting") {
    using timeline::Interval, timeline::Intervals;
    Random random(5);
    for (int round = 0; round < 2000; ++round) {
        std::array<std::array<bool, 64>, 2> ticks{};
        std::array<Intervals, 2> sets;
        for (int s = 0; s < 2; ++s) {
            std::vector<Interval> any;
            for (std::int64_t i = random_below(random, 12); i > 0; --i) {
                const std::int64_t begin = random_below(random, 60), end = begin + random_below(random, 6) - 1;
                any.push_back({begin, end});
                for (std::int64_t t = begin; t < end; ++t) {
                    ticks[s][t] = true;
                }
            }
            sets[s] = timeline::union_of(any);
            for (std::size_t i = 1; i < sets[s].size(); ++i) {
                CHECK(sets[s][i - 1].end < sets[s][i].begin);
            }
        }
        std::int64_t both = 0, either = 0, first = 0, cut = 0;
        for (std::int64_t t = 0; t < 64; ++t) {
            both += ticks[0][t] && ticks[1][t];
            either += ticks[0][t] || ticks[1][t];
            first += ticks[0][t] && !ticks[1][t];
            cut += ticks[0][t] && t >= 10 && t < 40;
        }
        CHECK(common(sets[0], sets[1]) == both);
        CHECK(length(joined(sets[0], sets[1])) == either);
        CHECK(length(without(sets[0], sets[1])) == first);
        CHECK(length(within(sets[0], Interval{10, 40})) == cut);
    }
}

}  // namespace oomb::profiler
