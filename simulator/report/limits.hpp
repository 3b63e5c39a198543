#pragma once
// Whether a plan fits into the memory there is.

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

// Budgets of the two tiers are in the run's configuration. Where both tiers are the same memory (device cpu),
// `free_bytes` also limits their sum; 0 = no such limit.
struct Limits {
    std::int64_t free_bytes = 0;
};

// A memory that the plan does not fit into.
struct Excess {
    std::string_view memory;  // "GPU memory"
    std::int64_t asked_bytes = 0;
    std::int64_t available_bytes = 0;
    std::int64_t short_bytes() const { return asked_bytes - available_bytes; }
};

// Empty: the plan fits.
std::vector<Excess> excesses_of(const schedule::Plan& plan, const Limits& limits);

// What a user calls a tier: "GPU memory"; with device cpu "device arena".
std::string_view tier_title(DeviceKind device, Tier tier);

}  // namespace oomb::simulator
