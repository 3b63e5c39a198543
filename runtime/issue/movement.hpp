#pragma once
// What an issued operation moves between the tiers: predicted by the schedule, and what a backend counts.

#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::issue {

struct Movement {
    std::int64_t bytes = 0;
    std::int64_t pages = 0;
    // Of pages that follow one another. Within a chunk they are mostly neighbours on both sides, so that a run is one
    // copy of keys and one of values for each chunk.
    std::int64_t runs = 0;
};

// Zero for operations of other engines than the two that copy. Page copies count the pages that travel, not those that
// the request names: those already in place stay.
Movement movement_of(const IssuedOperation& issued, const schedule::Plan& plan);

}  // namespace oomb::issue
