#pragma once
// Chooses what is held and kept where the run leaves it to the plan. Private to the schedule; plan.hpp has the rule.

#include "runtime/schedule/placement.hpp"

namespace oomb::schedule {

// The plan of a valid run, with `--keep auto` and `--held-chunks auto` decided.
Plan choose_plan(const ModelShape& model, const RunConfiguration& asked);

}  // namespace oomb::schedule
