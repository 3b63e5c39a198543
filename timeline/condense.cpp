#include "timeline/condense.hpp"

#include <algorithm>

namespace oomb::timeline {
namespace {

// Joins neighbours that are both shorter than the resolution, with a gap shorter than it between them, to slices that
// are no longer than twice the resolution.
class Joiner {
  public:
    explicit Joiner(std::int64_t resolution_ns) : resolution_(resolution_ns) {}

    std::vector<DrawnSlice> run(const Lane& lane) {
        for (const Slice& slice : lane) {
            if (!drawn_.empty() && joins(slice)) {
                join(slice);
            } else {
                close();
                drawn_.push_back({slice.begin_ns, slice.end_ns, 1, slice.id, group_of(slice.id.kind), slice.bytes});
            }
            last_ns_ = slice.end_ns - slice.begin_ns;
            group_ns_[static_cast<std::size_t>(group_of(slice.id.kind))] += last_ns_;
        }
        close();
        return std::move(drawn_);
    }

  private:
    bool joins(const Slice& slice) const {
        const DrawnSlice& last = drawn_.back();
        return slice.end_ns - slice.begin_ns < resolution_ && last_ns_ < resolution_ &&
               slice.begin_ns - last.end_ns < resolution_ && slice.end_ns - last.begin_ns < 2 * resolution_;
    }

    void join(const Slice& slice) {
        DrawnSlice& last = drawn_.back();
        last.end_ns = slice.end_ns;
        last.operations += 1;
        last.bytes += slice.bytes;
    }

    void close() {
        if (!drawn_.empty()) {
            drawn_.back().group =
                static_cast<Group>(std::max_element(group_ns_.begin(), group_ns_.end()) - group_ns_.begin());
        }
        group_ns_ = {};
    }

    std::int64_t resolution_;
    std::int64_t last_ns_ = 0;  // length of the operation that was added last
    std::array<std::int64_t, kGroups> group_ns_{};
    std::vector<DrawnSlice> drawn_;
};

}  // namespace

DrawnLanes condense(const Timeline& timeline, std::int64_t limit) {
    DrawnLanes drawn;
    for (std::int64_t resolution = 0;; resolution = resolution == 0 ? 1000 : 2 * resolution) {
        std::int64_t slices = 0;
        for (std::size_t engine = 0; engine < timeline.lanes.size(); ++engine) {
            drawn.lanes[engine] = Joiner(resolution).run(timeline.lanes[engine]);
            slices += std::ssize(drawn.lanes[engine]);
        }
        drawn.resolution_ns = resolution;
        if (slices <= limit || resolution > timeline.end_ns()) {
            return drawn;
        }
    }
}

}  // namespace oomb::timeline
