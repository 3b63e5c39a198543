#pragma once
// Short words in which the generator's files speak of regions and keys. Private to the schedule.

#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/key_parts.hpp"

namespace oomb::schedule {

inline RegionUse read(RegionName region, std::int32_t slot = 0) {
    return {region, slot, Access::kRead};
}
inline RegionUse write(RegionName region, std::int32_t slot = 0) {
    return {region, slot, Access::kWrite};
}
// First write of a life: what was there before means nothing.
inline RegionUse begin(RegionName region) {
    return {region, 0, Access::kWrite, true, false};
}
// Last read of a life.
inline RegionUse end(RegionName region) {
    return {region, 0, Access::kRead, false, true};
}
// Lives within one operation.
inline RegionUse scratch(RegionName region) {
    return {region, 0, Access::kWrite, true, true};
}

inline RegionUse read_and(bool ends, RegionName region) {
    return {region, 0, Access::kRead, false, ends};
}
inline RegionUse write_and(bool begins, RegionName region) {
    return {region, 0, Access::kWrite, begins, false};
}

struct SequenceGenerator::Keys {
    std::int64_t first = 0;  // absolute position of the first key
    std::int64_t tokens = 0;
    PageSet pages;
    std::int64_t first_query = 0, queries = 0;  // who reads them
    std::int64_t sliding_window = 0;            // of them, as in AttentionCost
    // Each query page reads the `tokens` keys of its list; `pages` counts the most that the lists may name.
    bool listed = false;

    PageRequest request(PageUse use) const { return {use, pages, pages.count, listed}; }
    // The operation works on these queries alone.
    void narrow(Operation& operation) const {
        operation.rows = queries;
        operation.first_row = first_query;
    }
};

}  // namespace oomb::schedule
