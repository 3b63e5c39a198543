#include "simulator/report/limits.hpp"

namespace oomb::simulator {

std::vector<Excess> excesses_of(const schedule::Plan& plan, const Limits& limits) {
    std::vector<Excess> excesses;
    for (const schedule::Shortfall& shortfall : schedule::shortfalls(plan)) {
        excesses.push_back(
            {tier_title(plan.run.device, shortfall.tier), shortfall.needed_bytes, shortfall.available_bytes});
    }
    const std::int64_t both = plan.peak_bytes(Tier::kHbm) + plan.peak_bytes(Tier::kHost);
    if (limits.free_bytes > 0 && both > limits.free_bytes) {
        excesses.push_back({"free memory", both, limits.free_bytes});
    }
    return excesses;
}

std::string_view tier_title(DeviceKind device, Tier tier) {
    if (tier == Tier::kHost) {
        return "host memory";
    }
    return device == DeviceKind::kCuda ? "GPU memory" : "device arena";
}

}  // namespace oomb::simulator
