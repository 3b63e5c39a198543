#pragma once
// Where the clock takes its times from: a hardware profile, or the recording of a run (replay.hpp).

#include <cstdint>

#include "simulator/costs.hpp"

namespace oomb::simulator {

class Durations {
  public:
    virtual ~Durations() = default;

    // Seconds for which an operation keeps its engine busy. `bytes` is what it moves between the tiers; `both`: the
    // other copy engine is busy when it begins.
    virtual double seconds(const schedule::Operation& operation, std::int64_t bytes, bool both) = 0;

    // Seconds between the moment at which nothing holds the operation up any more and its begin.
    virtual double gap_seconds(const schedule::Operation& /*operation*/) { return 0.0; }

    // All operations run one after the other, in program order, whatever engine they name.
    virtual bool one_engine() const { return false; }
};

class ProfileDurations : public Durations {
  public:
    // Throws as Costs.
    ProfileDurations(const RunConfiguration& run, const HardwareProfile& profile) : costs_(run, profile) {}

    double seconds(const schedule::Operation& operation, std::int64_t bytes, bool both) override {
        return operation.engine == schedule::Engine::kCompute ? costs_.compute_seconds(operation)
                                                              : costs_.copy_seconds(operation.engine, bytes, both);
    }

  private:
    Costs costs_;
};

}  // namespace oomb::simulator
