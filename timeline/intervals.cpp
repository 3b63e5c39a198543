#include "timeline/intervals.hpp"

#include <algorithm>

namespace oomb::timeline {

Intervals union_of(std::vector<Interval> any) {
    std::sort(any.begin(), any.end(), [](const Interval& x, const Interval& y) { return x.begin < y.begin; });
    Intervals found;
    for (const Interval& next : any) {
        if (next.begin >= next.end) {
            continue;
        }
        if (!found.empty() && next.begin <= found.back().end) {
            found.back().end = std::max(found.back().end, next.end);
        } else {
            found.push_back(next);
        }
    }
    return found;
}

std::int64_t length(const Intervals& set) {
    std::int64_t sum = 0;
    for (const Interval& interval : set) {
        sum += interval.end - interval.begin;
    }
    return sum;
}

std::int64_t common(const Intervals& a, const Intervals& b) {
    std::int64_t sum = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        sum += std::max<std::int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
        a[i].end < b[j].end ? ++i : ++j;
    }
    return sum;
}

Intervals joined(const Intervals& a, const Intervals& b) {
    Intervals all(a);
    all.insert(all.end(), b.begin(), b.end());
    return union_of(std::move(all));
}

Intervals without(const Intervals& a, const Intervals& b) {
    Intervals left;
    std::size_t j = 0;
    for (Interval piece : a) {
        while (j < b.size() && b[j].end <= piece.begin) {
            ++j;
        }
        for (std::size_t k = j; k < b.size() && b[k].begin < piece.end; ++k) {
            if (b[k].begin > piece.begin) {
                left.push_back({piece.begin, b[k].begin});
            }
            piece.begin = b[k].end;
        }
        if (piece.begin < piece.end) {
            left.push_back(piece);
        }
    }
    return left;
}

Intervals within(const Intervals& set, const Interval& span) {
    Intervals cut;
    for (const Interval& interval : set) {
        const Interval piece{std::max(interval.begin, span.begin), std::min(interval.end, span.end)};
        if (piece.begin < piece.end) {
            cut.push_back(piece);
        }
    }
    return cut;
}

}  // namespace oomb::timeline
