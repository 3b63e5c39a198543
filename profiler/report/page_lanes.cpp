#include "profiler/report/page_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "profiler/analysis/tracks.hpp"
#include "timeline/condense.hpp"

namespace oomb::profiler {
namespace {

using timeline::Color;

constexpr Color kKernelColors[] = {Color::kBlue, Color::kOrange, Color::kGreen, Color::kViolet};
constexpr std::size_t kNamedKernels = std::size(kKernelColors);
constexpr std::size_t kMostDetail = 160;  // characters of a kernel's name in a tip

std::string detail_name(std::string_view name) {
    return name.size() <= kMostDetail ? std::string(name) : std::string(name.substr(0, kMostDetail)) + "...";
}

// What the colours stand for: a number for each slice.
class Categories {
  public:
    explicit Categories(const Findings& findings) : profile_(findings.profile), marked_(findings.has_operations()) {
        if (marked_) {
            for (int group = 0; group < timeline::kGroups; ++group) {
                add(timeline::name_of(static_cast<timeline::Group>(group)), static_cast<Color>(group));
            }
        } else {
            for (std::size_t i = 0; i < std::min(kNamedKernels, findings.kernels.size()); ++i) {
                numbers_[findings.kernels[i].name] = size();
                add(short_name(findings.kernels[i].name), kKernelColors[i]);
            }
        }
        other_ = add(marked_ ? "outside of operations" : "other kernels", Color::kGrey);
        to_device_ = add("copies to the device", Color::kTeal);
        to_host_ = add("copies to the host", Color::kPink);
        on_device_ = add("other copies, memsets", Color::kBrown);
        range_ = add("NVTX ranges", Color::kIdle);
    }

    std::uint32_t of(const Slice& slice) const {
        switch (slice.work) {
            case Work::kRange:
                return range_;
            case Work::kKernel: {
                const Kernel& kernel = profile_.kernels[slice.index];
                return marked_ ? of_call(kernel.correlation) : of_kernel(kernel.name);
            }
            case Work::kMemset:
                return marked_ ? of_call(profile_.memsets[slice.index].correlation) : on_device_;
            case Work::kCopy:
                break;
        }
        const Copy& copy = profile_.copies[slice.index];
        return marked_                                ? of_call(copy.correlation)
               : copy.kind == CopyKind::kHostToDevice ? to_device_
               : copy.kind == CopyKind::kDeviceToHost ? to_host_
                                                      : on_device_;
    }

    const std::vector<timeline::Category>& all() const { return all_; }

  private:
    std::uint32_t size() const { return static_cast<std::uint32_t>(all_.size()); }
    std::uint32_t add(std::string_view name, Color color) {
        all_.push_back({std::string(name), color});
        return size() - 1;
    }
    std::uint32_t of_call(std::uint32_t correlation) const {
        const auto id = profile_.operation_of(correlation);
        return id ? static_cast<std::uint32_t>(timeline::group_of(id->kind)) : other_;
    }
    std::uint32_t of_kernel(StringId name) const {
        const auto [found, is_new] = by_id_.try_emplace(name, other_);
        if (is_new) {
            const auto number = numbers_.find(demangled(profile_.text(name)));
            found->second = number == numbers_.end() ? other_ : number->second;
        }
        return found->second;
    }

    const Profile& profile_;
    bool marked_;
    std::vector<timeline::Category> all_;
    std::unordered_map<std::string, std::uint32_t> numbers_;  // of the kernels that have one
    mutable std::unordered_map<StringId, std::uint32_t> by_id_;
    std::uint32_t other_ = 0, to_device_ = 0, to_host_ = 0, on_device_ = 0, range_ = 0;
};

std::string operation_text(const Profile& profile, std::uint32_t correlation) {
    const auto id = profile.operation_of(correlation);
    return id ? schedule::to_text(*id) : "";
}

struct SliceText {
    std::string name, detail;
};

SliceText text_of(const Profile& profile, const std::vector<Range>& ranges, const Slice& slice) {
    const auto lines = [](const std::string& first, const std::string& second) {
        return first.empty() || second.empty() ? first + second : first + "\n" + second;
    };
    switch (slice.work) {
        case Work::kKernel: {
            const Kernel& kernel = profile.kernels[slice.index];
            const std::string name = demangled(profile.text(kernel.name));
            const std::string shorter = short_name(name);
            return {shorter,
                    lines(operation_text(profile, kernel.correlation), shorter == name ? "" : detail_name(name))};
        }
        case Work::kCopy: {
            const Copy& copy = profile.copies[slice.index];
            return {fmt::format("copy {}", name_of(copy.kind)),
                    lines(operation_text(profile, copy.correlation),
                          fmt::format("{} to {} memory", name_of(copy.from), name_of(copy.to)))};
        }
        case Work::kMemset:
            return {"memset", operation_text(profile, profile.memsets[slice.index].correlation)};
        case Work::kRange:
            break;
    }
    return {std::string(profile.text(ranges[slice.index].name)), ""};
}

std::int64_t bytes_of(const Profile& profile, const Slice& slice) {
    return slice.work == Work::kCopy     ? profile.copies[slice.index].bytes
           : slice.work == Work::kMemset ? profile.memsets[slice.index].bytes
                                         : 0;
}

// The tracks with the most slices, in the order that they had.
std::size_t leave_out(std::vector<Track>& tracks) {
    const std::size_t left_out = tracks.size() - std::min(kMostTracks, tracks.size());
    if (left_out > 0) {
        std::vector<std::size_t> sizes;
        for (const Track& track : tracks) {
            sizes.push_back(track.slices.size());
        }
        std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(left_out), sizes.end());
        std::size_t to_go = left_out;
        std::erase_if(tracks, [&, least = sizes[left_out]](const Track& track) {
            return track.slices.size() <= least && to_go > 0 && to_go-- > 0;
        });
    }
    return left_out;
}

// The legend names what is drawn.
void leave_unused_unnamed(timeline::PageLanes& lanes) {
    std::vector<bool> used(lanes.categories.size());
    for (const timeline::PageLane& lane : lanes.lanes) {
        for (const timeline::PageSlice& slice : lane.slices) {
            used[slice.category] = true;
        }
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
        lanes.categories[i].name = used[i] ? lanes.categories[i].name : "";
    }
}

}  // namespace

std::string short_name(std::string_view demangled) {
    std::string name(demangled);
    for (std::size_t at = 0; (at = name.find("(anonymous namespace)::", at)) != std::string::npos;) {
        name.erase(at, std::string_view("(anonymous namespace)::").size());
    }
    if (name.starts_with("void ")) {
        name.erase(0, 5);
    }
    const std::size_t end = name.find_first_of("<(");
    return end == std::string::npos || end == 0 ? name : name.substr(0, end);
}

DrawnTracks page_lanes(const Findings& findings, std::int64_t zero_ns) {
    const Profile& profile = findings.profile;
    Tracks tracks = tracks_of(profile, TracksBy::kEngine);
    DrawnTracks drawn_tracks{.lanes = {}, .left_out = leave_out(tracks.all)};
    const Categories categories(findings);
    std::vector<timeline::Pieces> pieces;
    for (const Track& track : tracks.all) {
        pieces.emplace_back();
        for (const Slice& slice : track.slices) {
            pieces.back().push_back({slice.begin_ns - zero_ns, slice.end_ns - zero_ns, categories.of(slice)});
        }
    }
    const timeline::DrawnLanes drawn = condense(pieces, timeline::kMostDrawnSlices);
    timeline::PageLanes& lanes = drawn_tracks.lanes;
    lanes.unit = "slices";
    lanes.categories = categories.all();
    lanes.resolution_ns = drawn.resolution_ns;
    for (std::size_t t = 0; t < tracks.all.size(); ++t) {
        const Track& track = tracks.all[t];
        lanes.lanes.push_back({track.host ? "host, NVTX ranges" : findings.device_name(track.device),
                               track.lane == 0 ? track.name : fmt::format("lane {}", track.lane + 1),
                               {}});
        for (const timeline::DrawnPiece& piece : drawn.lanes[t]) {
            const SliceText text = text_of(profile, tracks.ranges, track.slices[piece.first]);
            timeline::PageSlice slice{.begin_ns = piece.begin_ns,
                                      .end_ns = piece.end_ns,
                                      .category = piece.category,
                                      .count = static_cast<std::int64_t>(piece.count),
                                      .name = lanes.texts.of(text.name),
                                      .detail = lanes.texts.of(text.detail)};
            for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
                slice.bytes = add_clamped(slice.bytes, bytes_of(profile, track.slices[i]));
            }
            lanes.lanes.back().slices.push_back(slice);
        }
    }
    leave_unused_unnamed(lanes);
    return drawn_tracks;
}

}  // namespace oomb::profiler
