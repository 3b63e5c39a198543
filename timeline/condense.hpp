#pragma once
// A lane of few enough slices to draw: what is too short to be seen is joined.

#include "timeline/timeline.hpp"

namespace oomb::timeline {

struct DrawnSlice {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::int64_t operations = 1;
    schedule::OperationId first;   // the only one, or the first of those joined
    Group group = Group::kLinear;  // of most of its time
    std::int64_t bytes = 0;
};

// All lanes with at most `limit` slices together. The resolution is the shortest time that every slice of at least that
// length, and every gap of at least that length, is still drawn for itself; 0: nothing had to be joined.
struct DrawnLanes {
    std::array<std::vector<DrawnSlice>, schedule::kEngines> lanes;
    std::int64_t resolution_ns = 0;
};
DrawnLanes condense(const Timeline& timeline, std::int64_t limit);

}  // namespace oomb::timeline
