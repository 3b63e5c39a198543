#include "runtime/issue/movement.hpp"

#include <numeric>

namespace oomb::issue {

namespace {

// Of the pages that travel.
std::int64_t runs_of(const paging::Grant& grant, const PageSet& pages) {
    const std::vector<paging::PageCopy>& copies = grant.to_hbm.empty() ? grant.to_host : grant.to_hbm;
    std::int64_t runs = 0, next = -1;
    std::size_t copied = 0;
    for (std::int64_t i = 0; i < pages.count && copied < copies.size(); ++i) {
        if (grant.frames[i] == copies[copied].hbm_frame) {
            runs += pages.page(i) == next ? 0 : 1;
            next = pages.page(i) + 1;
            ++copied;
        }
    }
    return runs;
}

}  // namespace

Movement movement_of(const IssuedOperation& issued, const schedule::Plan& plan) {
    using schedule::Engine;
    using schedule::Kind;
    const schedule::Operation& operation = issued.operation;
    if (operation.engine != Engine::kHostToDevice && operation.engine != Engine::kDeviceToHost) {
        return {};
    }
    if (!is_page_copy(operation.id.kind)) {
        const auto& cost = std::get<schedule::CopyCost>(operation.cost);
        return {cost.bytes, cost.pages, cost.pages};
    }
    Movement movement;
    for (std::size_t i = 0; i < issued.grants.size(); ++i) {
        const paging::Grant& grant = issued.grants[i];
        const auto pages = static_cast<std::int64_t>(grant.to_hbm.size() + grant.to_host.size());
        if (pages > 0) {
            const auto& planes = plan.pool(Tier::kHbm, grant.page_class)->plane_bytes;
            movement.pages += pages;
            movement.runs += runs_of(grant, operation.requests[i].pages);
            movement.bytes += pages * std::accumulate(planes.begin(), planes.end(), std::int64_t{0});
        }
    }
    return movement;
}

}  // namespace oomb::issue
