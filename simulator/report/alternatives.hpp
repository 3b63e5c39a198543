#pragma once
// What the peaks would be with other flags: the answer to a run that does not fit.

#include <string>
#include <vector>

#include "runtime/core/hardware_profile.hpp"
#include "simulator/report/limits.hpp"

namespace oomb::simulator {

// What is trained, and on what. The profile decides what is left to auto (plan_for_time).
struct Target {
    const ModelShape& model;
    Limits limits;
    const HardwareProfile& profile;
};

struct Alternative {
    std::string change;  // as typed: "--chunk 2K"
    RunConfiguration run;
    std::int64_t peak_bytes[kTiers] = {0, 0};
    std::vector<Excess> excesses;
    bool costs_only_time = true;  // false: the number type or the task is another one
    bool fits() const { return excesses.empty(); }
};

// One flag changed at a time, in the order of how little is given up: first what changes only time (where bytes lie,
// how the sequence is cut), then the number type, then the task (context, optimizer). Changes that lead to a run which
// is not allowed are left out. Of shorter contexts the longest in whole chunks that fits is named, or
// what halving a chunk leads to; if nothing fits the shortest tried (a page) stands.
std::vector<Alternative> alternatives(const Target& target, const RunConfiguration& run);

// Several flags at once, for runs that no single change makes fit: first everything that costs only time; if that is
// not enough, the same with a shorter context as above.
std::vector<Alternative> combinations(const Target& target, const RunConfiguration& run);

}  // namespace oomb::simulator
