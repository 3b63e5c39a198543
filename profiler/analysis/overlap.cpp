#include "profiler/analysis/overlap.hpp"

#include <algorithm>
#include <map>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

using timeline::Interval;
using timeline::Intervals;

struct Engines {
    std::vector<Interval> compute;
    std::array<std::vector<Interval>, kCopyKinds> copies;
    DeviceOverlap overlap;
};

std::map<std::uint32_t, Engines> by_device(const Profile& profile) {
    std::map<std::uint32_t, Engines> devices;
    for (const Kernel& kernel : profile.kernels) {
        Engines& engines = devices[kernel.place.device];
        engines.compute.push_back({kernel.begin_ns, kernel.end_ns});
        engines.overlap.kernels += 1;
    }
    for (const Memset& memset : profile.memsets) {
        Engines& engines = devices[memset.place.device];
        engines.compute.push_back({memset.begin_ns, memset.end_ns});
        engines.overlap.memsets += 1;
    }
    for (const Copy& copy : profile.copies) {
        Engines& engines = devices[copy.place.device];
        const auto kind = static_cast<std::size_t>(copy.kind);
        engines.copies[kind].push_back({copy.begin_ns, copy.end_ns});
        DirectionTime& direction = engines.overlap.directions[kind];
        direction.copies += 1;
        direction.pieces = add_clamped(direction.pieces, copy.pieces);
        direction.bytes = add_clamped(direction.bytes, copy.bytes);
    }
    return devices;
}

Interval span_of(const Intervals& set) {
    return set.empty() ? Interval{} : Interval{set.front().begin, set.back().end};
}

DeviceOverlap measure(Engines engines, std::uint32_t device) {
    DeviceOverlap overlap = engines.overlap;
    overlap.device = device;
    const Intervals compute = timeline::union_of(std::move(engines.compute));
    std::array<Intervals, kCopyKinds> unions;
    Intervals copies;
    for (std::size_t kind = 0; kind < unions.size(); ++kind) {
        unions[kind] = timeline::union_of(std::move(engines.copies[kind]));
        copies = timeline::joined(copies, unions[kind]);
    }
    const Intervals busy = timeline::joined(copies, compute);
    overlap.span = span_of(busy);
    overlap.compute_ns = length(compute);
    overlap.exposed_ns = length(timeline::without(copies, compute));
    overlap.idle_ns = length(timeline::without({overlap.span}, busy));
    for (std::size_t kind = 0; kind < unions.size(); ++kind) {
        DirectionTime& direction = overlap.directions[kind];
        direction.busy_ns = length(unions[kind]);
        direction.hidden_ns = common(unions[kind], compute);
        direction.exposed_ns = length(timeline::without(unions[kind], compute));
        direction.idle_ns = overlap.span_ns() - direction.busy_ns;
        require(direction.busy_ns == direction.hidden_ns + direction.exposed_ns,
                "device {}, {}: busy {} ns, but hidden {} and exposed {}", device, name_of(static_cast<CopyKind>(kind)),
                direction.busy_ns, direction.hidden_ns, direction.exposed_ns);
    }
    require(overlap.compute_ns + overlap.exposed_ns + overlap.idle_ns == overlap.span_ns(),
            "device {}: compute {} ns, exposed copies {} and idle {} are not the span of {}", device,
            overlap.compute_ns, overlap.exposed_ns, overlap.idle_ns, overlap.span_ns());
    return overlap;
}

// The longest gaps between busy times, with the names at both ends.
std::vector<Gap> gaps_between(const Profile& profile, std::uint32_t device) {
    struct Work {
        Interval time;
        StringId name = 0;
    };
    std::vector<Work> work;
    for (const Kernel& kernel : profile.kernels) {
        if (kernel.place.device == device) {
            work.push_back({{kernel.begin_ns, kernel.end_ns}, kernel.name});
        }
    }
    for (const Memset& memset : profile.memsets) {
        if (memset.place.device == device) {
            work.push_back({{memset.begin_ns, memset.end_ns}, 0});
        }
    }
    std::stable_sort(work.begin(), work.end(),
                     [](const Work& a, const Work& b) { return a.time.begin < b.time.begin; });
    std::vector<Gap> gaps;
    const Work* last = nullptr;  // of those so far the one that ends last
    for (const Work& next : work) {
        if (last != nullptr && next.time.begin > last->time.end) {
            gaps.push_back({.time = {last->time.end, next.time.begin}, .after = last->name, .before = next.name});
        }
        last = last == nullptr || next.time.end >= last->time.end ? &next : last;
    }
    return gaps;
}

}  // namespace

std::vector<DeviceOverlap> overlap_of(const Profile& profile) {
    std::vector<DeviceOverlap> all;
    for (auto& [device, engines] : by_device(profile)) {
        all.push_back(measure(std::move(engines), device));
    }
    return all;
}

std::vector<Gap> longest_gaps(const Profile& profile, std::uint32_t device, std::size_t most) {
    std::vector<Gap> gaps = gaps_between(profile, device);
    std::stable_sort(gaps.begin(), gaps.end(),
                     [](const Gap& a, const Gap& b) { return a.time.end - a.time.begin > b.time.end - b.time.begin; });
    gaps.resize(std::min(most, gaps.size()));
    const auto meanwhile = [](const auto& records, const Interval& gap, const auto& counts) {
        std::vector<Interval> times;
        for (const auto& record : records) {
            if (counts(record) && record.begin_ns < gap.end && record.end_ns > gap.begin) {
                times.push_back({record.begin_ns, record.end_ns});
            }
        }
        return length(timeline::within(timeline::union_of(std::move(times)), gap));
    };
    for (Gap& gap : gaps) {
        const auto copies = [&](CopyKind kind) {
            return meanwhile(profile.copies, gap.time,
                             [&](const Copy& c) { return c.place.device == device && c.kind == kind; });
        };
        gap.host_to_device_ns = copies(CopyKind::kHostToDevice);
        gap.device_to_host_ns = copies(CopyKind::kDeviceToHost);
        gap.synchronization_ns = meanwhile(profile.synchronizations, gap.time, [](const Synchronization& s) {
            return s.kind != SynchronizationKind::kStreamWaitsForEvent;
        });
    }
    return gaps;
}

}  // namespace oomb::profiler
