#pragma once
// Sets of times: disjoint intervals [begin, end) in order, of which none touches the next.

#include <cstdint>
#include <vector>

namespace oomb::timeline {

struct Interval {
    std::int64_t begin = 0, end = 0;
    bool operator==(const Interval&) const = default;
};
using Intervals = std::vector<Interval>;

// The set of all that any of these covers; empty and reversed ones cover nothing.
Intervals union_of(std::vector<Interval> any);

std::int64_t length(const Intervals& set);
std::int64_t common(const Intervals& a, const Intervals& b);  // length of what is in both
Intervals joined(const Intervals& a, const Intervals& b);
Intervals without(const Intervals& a, const Intervals& b);  // what is in a and not in b
Intervals within(const Intervals& set, const Interval& span);

}  // namespace oomb::timeline
