#pragma once
// How long an operation keeps its engine busy: what it is made of (operation_parts.hpp) at a hardware profile's prices.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/costs/operation_parts.hpp"

namespace oomb::simulator {

// The rates of attention in a profile.
struct AttentionKey {
    TileKernel kernel;
    const char* key;
    HeadRates HardwareProfile::*rates;
};
inline constexpr AttentionKey kAttentionKeys[] = {
    {TileKernel::kAttentionForward, "attention_forward", &HardwareProfile::attention_forward_flops},
    {TileKernel::kAttentionForwardCausal, "attention_forward_causal", &HardwareProfile::attention_forward_causal_flops},
    {TileKernel::kAttentionBackward, "attention_backward", &HardwareProfile::attention_backward_flops},
    {TileKernel::kAttentionBackwardCausal, "attention_backward_causal",
     &HardwareProfile::attention_backward_causal_flops},
    {TileKernel::kAttentionBackwardDeterministic, "attention_backward_deterministic",
     &HardwareProfile::attention_backward_deterministic_flops},
    {TileKernel::kAttentionBackwardCausalDeterministic, "attention_backward_causal_deterministic",
     &HardwareProfile::attention_backward_causal_deterministic_flops},
    {TileKernel::kOwnAttentionForward, "own_attention_forward", &HardwareProfile::own_attention_forward_flops},
    {TileKernel::kOwnAttentionForwardCausal, "own_attention_forward_causal",
     &HardwareProfile::own_attention_forward_causal_flops},
    {TileKernel::kOwnAttentionBackward, "own_attention_backward", &HardwareProfile::own_attention_backward_flops},
    {TileKernel::kOwnAttentionBackwardCausal, "own_attention_backward_causal",
     &HardwareProfile::own_attention_backward_causal_flops},
    {TileKernel::kOwnAttentionBackwardDeterministic, "own_attention_backward_deterministic",
     &HardwareProfile::own_attention_backward_deterministic_flops},
    {TileKernel::kOwnAttentionBackwardCausalDeterministic, "own_attention_backward_causal_deterministic",
     &HardwareProfile::own_attention_backward_causal_deterministic_flops}};

// What the profile lacks to time a run that computes in `dtype`: the key of its rates. Nothing: it has all.
std::optional<std::string> missing_rate(const HardwareProfile& profile, DType dtype, bool deterministic);

// Seconds of a FLOP of full waves, and of a wave.
struct TilePrice {
    double flop = 0.0, wave = 0.0;
};

// Of the ways to cut an operation the one that takes least; of no way: nothing.
double tile_seconds(const OperationParts& parts, const TilePrice& price);

class Costs {
  public:
    // Throws FileError where missing_rate() names one.
    Costs(const RunConfiguration& run, const HardwareProfile& profile);

    // Seconds on the compute engine. A head size that the profile does not have takes prices between those of its
    // neighbours, beyond them those of the nearest.
    double compute_seconds(const schedule::Operation& operation) const;

    // Seconds on a copy engine: a start, then `bytes` over the rate of its direction, alone or while the other engine
    // is busy too.
    double copy_seconds(schedule::Engine engine, std::int64_t bytes, bool both) const;

    // Of the host, for each kernel of an operation, and for one that has none; and for each run of a copy's pages.
    double submit_seconds(const schedule::Operation& operation, std::int64_t runs) const;

  private:
    TilePrice tile_price(TileKernel kernel, std::int64_t head_dim) const;

    RunConfiguration run_;
    std::int64_t multiprocessors_;
    std::array<double, kParts> prices_{};
    std::array<std::map<std::int64_t, TilePrice>, kTileKernels> tile_prices_;  // by head size, 0 for products
    double copy_[2][2];  // seconds per byte, by device-to-host and both
    double copy_start_, submit_, submit_page_;
};

}  // namespace oomb::simulator
