#pragma once
// How long an operation keeps its engine busy, from its cost descriptor and a hardware profile.

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

// What the profile lacks to time a run that computes in `dtype`: the key of its rates. Nothing: it has all.
std::optional<std::string> missing_rate(const HardwareProfile& profile, DType dtype);

class Costs {
  public:
    // Throws FileError where missing_rate() names one.
    Costs(const RunConfiguration& run, const HardwareProfile& profile);

    // Seconds on the compute engine. Each operation takes the profile's launch time and beside it
    //   matrix product   FLOPs over the rate, plus the reading and writing of an output that is added to; at least the
    //                    bytes of all operands over the rate of HBM
    //   attention        FLOPs of the (query, key) pairs that are seen over the rate, another one under the causal mask
    //   passes           bytes over the rate of HBM: of a copy, or of what only reads (gradient norm) or writes
    //   (clearing) copies           between HBM and HBM: bytes read and bytes written over that rate
    // An operation without a cost (release) takes nothing.
    double compute_seconds(const schedule::Operation& operation) const;

    // Seconds on a copy engine: `bytes` over the rate of its direction, alone or while the other engine is busy too.
    double copy_seconds(schedule::Engine engine, std::int64_t bytes, bool both) const;

  private:
    double pass_rate(schedule::Kind kind) const;
    double product_seconds(const schedule::GemmCost& cost) const;
    double attention_seconds(const schedule::AttentionCost& cost) const;

    double compute_bytes_, gradient_bytes_;  // of an element
    double gemm_;                            // FLOPs per second
    double attention_[2][2];                 // FLOPs per second, by backward and causal
    double hbm_, hbm_read_, hbm_write_;      // bytes per second
    double copy_[2][2];                      // bytes per second, by device-to-host and both
    double launch_;                          // seconds
};

}  // namespace oomb::simulator
