#include "runtime/issue/movement.hpp"

#include <numeric>

namespace oomb::issue {

Movement movement_of(const IssuedOperation& issued, const schedule::Plan& plan) {
    using schedule::Engine;
    using schedule::Kind;
    const schedule::Operation& operation = issued.operation;
    if (operation.engine != Engine::kHostToDevice && operation.engine != Engine::kDeviceToHost) {
        return {};
    }
    if (!is_page_copy(operation.id.kind)) {
        const auto& cost = std::get<schedule::CopyCost>(operation.cost);
        return {cost.bytes, cost.pages};
    }
    Movement movement;
    for (const paging::Grant& grant : issued.grants) {
        const auto pages = static_cast<std::int64_t>(grant.to_hbm.size() + grant.to_host.size());
        if (pages > 0) {
            const auto& planes = plan.pool(Tier::kHbm, grant.page_class)->plane_bytes;
            movement.pages += pages;
            movement.bytes += pages * std::accumulate(planes.begin(), planes.end(), std::int64_t{0});
        }
    }
    return movement;
}

}  // namespace oomb::issue
