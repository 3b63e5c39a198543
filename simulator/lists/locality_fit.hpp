#pragma once
// What lists of pages have in common, and the numbers of the model (locality.hpp) that have most of it in common with a
// recorded run.

#include <cstdint>
#include <vector>

#include "simulator/lists/locality.hpp"

namespace oomb::simulator {

struct ListStatistics {
    struct Bin {
        std::int64_t first = 0, last = 0;  // pages
        double hit_rate = 0.0;             // share of the lists that name such a page, mean over those
    };
    std::int64_t lists = 0;
    double recent_share = 0.0;     // of the named pages, those among the latest top_k before the chunk
    double named_share = 0.0;      // of the pages before the chunk, what a list names
    std::vector<Bin> by_place;     // the first pages of the sequence, one by one
    std::vector<Bin> by_distance;  // pages before the chunk, 1 is the latest: 1, 2-3, 4-7, ...; without the first pages
    struct Group {
        std::int64_t query_pages = 0;
        double distinct = 0.0;  // pages that the lists of so many query pages name, over their lengths added
    };
    std::vector<Group> groups;       // 2, 4, 8, ... neighbouring query pages of a chunk, and all of it
    double neighbour_overlap = 0.0;  // of a list's pages, those that the list before it in the chunk names too
    double chunk_overlap = 0.0;      // of the pages that a chunk's lists name, those that the chunk's before did
};

inline constexpr std::int64_t kFirstPages = 4;

ListStatistics statistics_of(const PageTrace& trace);
// The same of lists that a model makes for the query pages which the trace has lists of.
ListStatistics statistics_of(const PageTrace& trace, const Locality& locality);

// sink: by how much more often the first pages are named than pages farther from the chunk than a list is long.
// recency: so that as many of the named pages are among the latest top_k before the chunk; zipf: so that the lists of a
// chunk (where only a short last chunk has lists: of the largest group in it) name as many different pages. Both by
// bisection, for the one grows with recency and the other falls with zipf. FileError where no two query pages of a
// chunk have lists.
Locality fit_locality(const PageTrace& trace);

}  // namespace oomb::simulator
