#pragma once
// Which page makes room when HBM's frames are full: policies compared on the runtime's own state machine
// (runtime/paging/residency.hpp), over what a step asks of its pages.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/paging/residency.hpp"
#include "simulator/lists/page_requests.hpp"

namespace oomb::simulator {

enum class Policy : std::uint8_t {
    kLeastRecentlyUsed,  // what runs
    // The page whose next use is the farthest, as far as it is known: what the schedule says and lists that have been
    // made. A list that is yet to be made may name any page of its layer, so no next use is taken to lie beyond the
    // layer's next selection; of equals the least recently used page goes.
    kNextUseKnown,
    kOptimum,  // the page whose next use is the farthest, lists of the future known: no policy fetches less (Belady)
};
inline constexpr int kPolicies = 3;
std::string_view name_of(Policy policy);  // "least recently used", ...

// Of pages whose home is the host.
struct PageTraffic {
    std::int64_t asked = 0;       // by fetches, of pages that exist
    std::int64_t fetched = 0;     // of them were not in HBM and came from the host
    std::int64_t written = 0;     // went to the host
    std::int64_t page_bytes = 0;  // of one page, both planes

    double hit_rate() const;  // 1 where nothing was asked for
};

// Requests of the shape's class, carried out on a state machine of this shape. Throws InternalError as Residency does.
PageTraffic traffic_of(const std::vector<PageRequest>& requests, const paging::ResidencyShape& shape, Policy policy);

// The shape of `plan` with `times` as many frames in the ring that pages of the host pass through, at most one for
// each.
paging::ResidencyShape with_ring(const schedule::Plan& plan, PageClass page_class, std::int64_t times);

}  // namespace oomb::simulator
