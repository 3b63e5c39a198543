#pragma once
// What a device's engines did at once: how much of each direction's copies ran beside compute. All from intervals.
// Compute is kernels and memsets; synchronisation records are waiting, not work, and take no part.

#include <array>
#include <cstdint>
#include <vector>

#include "profiler/analysis/profile.hpp"
#include "timeline/intervals.hpp"

namespace oomb::profiler {

struct DirectionTime {
    std::int64_t copies = 0, pieces = 0, bytes = 0;
    std::int64_t busy_ns = 0;    // hidden + exposed: at least one copy of this direction ran
    std::int64_t hidden_ns = 0;  // compute was busy meanwhile
    std::int64_t exposed_ns = 0;
    std::int64_t idle_ns = 0;  // of the span
};

// Within the span from the first begin to the last end of anything on the device. Identity, checked where this is made:
// compute + exposed + idle = span.
struct DeviceOverlap {
    std::uint32_t device = 0;
    timeline::Interval span;
    std::int64_t kernels = 0, memsets = 0;
    std::int64_t compute_ns = 0;
    std::int64_t exposed_ns = 0;  // a copy of any direction ran, and no compute
    std::int64_t idle_ns = 0;
    std::array<DirectionTime, kCopyKinds> directions = {};  // by CopyKind

    std::int64_t span_ns() const { return span.end - span.begin; }
};

// The devices that did anything, by number.
std::vector<DeviceOverlap> overlap_of(const Profile& profile);

// A time without compute between two pieces of it.
struct Gap {
    timeline::Interval time;
    std::int64_t host_to_device_ns = 0, device_to_host_ns = 0;  // copies ran meanwhile
    std::int64_t synchronization_ns = 0;  // a thread waited for the device, or for one of its streams or events
    StringId after = 0, before = 0;       // kernels; 0: a memset
};

// The longest `most` gaps of a device, the longest first.
std::vector<Gap> longest_gaps(const Profile& profile, std::uint32_t device, std::size_t most);

}  // namespace oomb::profiler
