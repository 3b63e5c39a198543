#pragma once
// The run that a trace is of, from the plan in its header.

#include "runtime/core/json.hpp"
#include "runtime/flags/run_flags.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

struct RecordedPlan {
    RunFlags flags;       // the run as it was asked for; --model is not known
    schedule::Plan plan;  // as it was carried out: what was left to auto is what the trace says
};

// `node` is a plan file (docs/plan-format.md). Throws FileError naming the key: something is missing or impossible, or
// this program plans other pages for the same run, so that its schedule is not the recorded one.
RecordedPlan recorded_plan(const JsonNode& node);

}  // namespace oomb::simulator
