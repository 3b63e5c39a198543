#pragma once
// What the peaks would be with other flags: the answer to a run that does not fit.

#include <optional>
#include <string>
#include <vector>

#include "simulator/limits.hpp"

namespace oomb::simulator {

struct Alternative {
    std::string change;  // as typed: "--chunk 2K"
    RunConfiguration run;
    std::int64_t peak_bytes[kTiers] = {0, 0};
    std::vector<Excess> excesses;
    bool fits() const { return excesses.empty(); }
};

// One flag changed at a time, in the order of how little is given up: first what changes only time (where bytes lie,
// how the sequence is cut), then the number type, then the task (context, optimizer). Changes that lead to a run which
// is not allowed are left out. The context is halved until it fits, and if it never does, down to a page.
std::vector<Alternative> alternatives(const ModelShape& model, const RunConfiguration& run, const Limits& limits);

// All changes at once that give up only time. Empty where there are none.
std::optional<Alternative> all_savings(const ModelShape& model, const RunConfiguration& run, const Limits& limits);

}  // namespace oomb::simulator
