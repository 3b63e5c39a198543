#include "profiler/analysis/window.hpp"

#include <algorithm>
#include <unordered_set>

namespace oomb::profiler {

timeline::Interval recorded_time(const Profile& profile) {
    timeline::Interval time{kMostNumber, 0};
    const auto take = [&](std::int64_t begin, std::int64_t end) {
        time.begin = std::min(time.begin, begin);
        time.end = std::max(time.end, end);
    };
    const auto take_all = [&](const auto& list) {
        for (const auto& record : list) {
            take(record.begin_ns, record.end_ns);
        }
    };
    take_all(profile.kernels);
    take_all(profile.copies);
    take_all(profile.memsets);
    for (const Marker& marker : profile.markers) {
        take(marker.at_ns == 0 ? time.begin : marker.at_ns, marker.at_ns);  // 0: not known
    }
    return time.begin <= time.end ? time : timeline::Interval{};
}

void keep_window(Profile& profile, const timeline::Interval& window) {
    const auto begins_outside = [&](const auto& record) {
        return record.begin_ns < window.begin || record.begin_ns >= window.end;
    };
    std::erase_if(profile.kernels, begins_outside);
    std::erase_if(profile.copies, begins_outside);
    std::erase_if(profile.calls, begins_outside);
    std::erase_if(profile.counters, begins_outside);
    std::erase_if(profile.memsets, begins_outside);
    std::erase_if(profile.synchronizations, begins_outside);
    std::erase_if(profile.overheads, begins_outside);
    std::erase_if(profile.memory, [&](const Memory& memory) { return memory.at_ns >= window.end; });
    // The end of a range is kept with its begin.
    std::unordered_set<std::uint32_t> open;
    std::erase_if(profile.markers, [&](const Marker& marker) {
        if (marker.kind == MarkerKind::kEnd) {
            return open.erase(marker.id) == 0;
        }
        const bool kept = marker.at_ns >= window.begin && marker.at_ns < window.end;
        if (kept && marker.kind == MarkerKind::kBegin) {
            open.insert(marker.id);
        }
        return !kept;
    });
}

}  // namespace oomb::profiler
