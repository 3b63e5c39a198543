#pragma once
// Offsets of static regions: two regions share bytes only if they are never live together.

#include <array>

#include "runtime/schedule/generator.hpp"

namespace oomb::schedule {

// which[a][b]: some operation finds a and b live together. Persistent regions (never begun) live with all.
using Interference = std::array<std::array<bool, kRegions>, kRegions>;

// Collects the interference of a schedule in program order. Copy engines need no more: an operation that begins a
// region waits for every earlier user of the same bytes.
class LivenessRecorder : public OperationSink {
  public:
    void take(const Operation& operation) override;
    Interference interference() const;

  private:
    using Set = std::uint64_t;  // a bit for each region
    static_assert(kRegions <= 64);
    static bool has(Set set, std::size_t region) { return (set >> region & 1) != 0; }

    Set used_ = 0, begun_ = 0, live_ = 0;
    std::array<Set, kRegions> together_{};
};

// A step of the same structure with few layers, chunks and windows.
StepShape representative_of(const StepShape& step);

// Interference of the step, from its representative.
Interference interference_of(const StepShape& step);

// Gives each region of `tier` its offset; returns the bytes from 0 to the end of the last one.
std::int64_t assign_offsets(RegionTable& regions, Tier tier, const Interference& interference);

}  // namespace oomb::schedule
