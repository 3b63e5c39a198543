#pragma once
// Two profiles held against each other: what a change did.

#include <map>
#include <string>
#include <vector>

#include "profiler/analysis/overlap.hpp"
#include "profiler/analysis/sums.hpp"

namespace oomb::profiler {

template <class T>
struct BeforeAfter {
    T before, after;
};

struct ProfileDifference {
    // By name. Least and most of the side that lacks the kernel are 0, as its count and total are.
    std::vector<BeforeAfter<NameSum>> kernels = {};                    // the largest difference of total time first
    std::map<schedule::Kind, BeforeAfter<OperationSum>> kinds = {};    // empty unless both have operation marks
    std::map<std::uint32_t, BeforeAfter<DeviceOverlap>> devices = {};  // by number
    BeforeAfter<std::int64_t> steps = {};                              // of oomb-train; 0 without marks
};

ProfileDifference difference_of(const Profile& before, const Profile& after);

}  // namespace oomb::profiler
