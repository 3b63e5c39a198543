#pragma once
// Memory in use over time, from the records of allocations and releases.

#include <cstdint>
#include <vector>

#include "profiler/analysis/profile.hpp"

namespace oomb::profiler {

// Of one kind of memory; that of a device, of this device.
struct MemoryUse {
    struct Point {
        std::int64_t at_ns = 0, bytes = 0;  // in use from then on
        bool operator==(const Point&) const = default;
    };

    MemoryKind kind = MemoryKind::kUnknown;
    std::uint32_t device = 0;   // 0 for the host's kinds
    std::vector<Point> points;  // by time, one per time at which something changed
    std::int64_t peak_bytes = 0, peak_at_ns = 0;
    std::int64_t allocations = 0, releases = 0;
};
bool of_device(MemoryKind kind);  // not pageable, pinned or managed memory, nor unknown

struct MemoryUses {
    std::vector<MemoryUse> kinds;  // by device, then kind
    // Of addresses that were not allocated while it was recorded: bytes that were in use before are not counted.
    std::int64_t unknown_releases = 0;
};

// A release is matched to its allocation by address, and counts with the bytes that were allocated there. An address
// that is allocated once more was released in between.
MemoryUses memory_use_of(const Profile& profile);

}  // namespace oomb::profiler
