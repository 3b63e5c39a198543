#include "profiler/analysis/tracks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace oomb::profiler {
namespace {

// What the lanes of one thing share. Things in the order in which they are shown.
struct Thing {
    bool host = false;
    std::uint32_t device = 0;
    std::uint64_t number = 0;
    auto operator<=>(const Thing&) const = default;
};
constexpr std::uint64_t kCopyNumbers = std::uint64_t{1} << 32;  // past every stream's
constexpr std::uint64_t kMemsetNumber = kCopyNumbers + kCopyKinds;

class Placer {
  public:
    void add(const Thing& thing, const Slice& slice) { things_[thing].push_back(slice); }

    // `name_of` says what a thing is called.
    template <class NameOf>
    Tracks finish(std::vector<Range> ranges, const NameOf& name_of) {
        Tracks tracks{.ranges = std::move(ranges)};
        for (auto& [thing, slices] : things_) {
            std::stable_sort(slices.begin(), slices.end(),
                             [](const Slice& a, const Slice& b) { return a.begin_ns < b.begin_ns; });
            tracks.slices += std::ssize(slices);
            const std::size_t first = tracks.all.size();
            Lanes lanes;
            for (const Slice& slice : slices) {
                const auto lane = static_cast<std::size_t>(lanes.place(slice.begin_ns, slice.end_ns));
                if (first + lane == tracks.all.size()) {
                    const std::string name = name_of(thing);
                    tracks.all.push_back({thing.host,
                                          thing.device,
                                          thing.number,
                                          static_cast<int>(lane),
                                          lane == 0 ? name : fmt::format("{}, lane {}", name, lane + 1),
                                          {}});
                }
                tracks.all[first + lane].slices.push_back(slice);
            }
            slices = {};
        }
        return tracks;
    }

  private:
    std::map<Thing, std::vector<Slice>> things_;
};

}  // namespace

std::vector<Range> ranges_of(const Profile& profile) {
    std::vector<Range> ranges;
    std::unordered_map<std::uint32_t, const Marker*> open;
    for (const Marker& marker : profile.markers) {
        if (marker.at_ns == 0) {  // not known
            continue;
        }
        if (marker.kind == MarkerKind::kInstant) {
            ranges.push_back({marker.at_ns, marker.at_ns, marker.thread, marker.name, marker.domain});
        } else if (marker.kind == MarkerKind::kBegin) {
            open[marker.id] = &marker;
        } else if (const auto begin = open.find(marker.id); begin != open.end()) {
            ranges.push_back({begin->second->at_ns, marker.at_ns, begin->second->thread, begin->second->name,
                              begin->second->domain});
            open.erase(begin);
        }
    }
    std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
        return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    return ranges;
}

Tracks tracks_of(const Profile& profile, TracksBy by) {
    Placer placer;
    const auto add_all = [&](const auto& list, Work work, const auto& number_of) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            const auto& record = list[i];
            const std::uint64_t number = by == TracksBy::kStream ? record.place.stream : number_of(record);
            placer.add({false, record.place.device, number}, {record.begin_ns, record.end_ns, work, i});
        }
    };
    add_all(profile.kernels, Work::kKernel, [](const Kernel& kernel) { return kernel.place.stream; });
    add_all(profile.copies, Work::kCopy,
            [](const Copy& copy) { return kCopyNumbers + static_cast<std::uint64_t>(copy.kind); });
    add_all(profile.memsets, Work::kMemset, [](const Memset&) { return kMemsetNumber; });
    std::vector<Range> ranges = ranges_of(profile);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        placer.add({true, 0, (ranges[i].domain << 32) + ranges[i].thread},
                   {ranges[i].begin_ns, ranges[i].end_ns, Work::kRange, i});
    }
    return placer.finish(std::move(ranges), [&](const Thing& thing) {
        if (thing.host) {
            return fmt::format("thread {} {}", thing.number & 0xFFFFFFFF, profile.text(thing.number >> 32));
        }
        if (thing.number >= kMemsetNumber) {
            return std::string("memsets");
        }
        return thing.number >= kCopyNumbers
                   ? fmt::format("copies {}", name_of(static_cast<CopyKind>(thing.number - kCopyNumbers)))
                   : fmt::format("stream {}", thing.number);
    });
}

int Lanes::place(std::int64_t begin_ns, std::int64_t end_ns) {
    std::size_t lane = 0;
    while (lane < ends_.size() && ends_[lane] > begin_ns) {
        ++lane;
    }
    ends_.resize(std::max(ends_.size(), lane + 1));
    ends_[lane] = end_ns;
    return static_cast<int>(lane);
}

}  // namespace oomb::profiler
