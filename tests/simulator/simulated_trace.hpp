#pragma once
// Traces of steps that ran on the simulator's clock, so that what a replay must give is known.

#include <functional>
#include <string>
#include <vector>

#include "runtime/schedule/plan.hpp"
#include "runtime/trace/trace.hpp"
#include "simulator/costs/durations.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::test {

// Two layers over four chunks whose pages travel.
schedule::Plan small_traced_plan(AttentionMode attention = AttentionMode::kDense);

// `steps` equal steps of `sequences` sequences, one second apart, each engine's operations in its order.
std::vector<trace::TraceRecord> simulated_records(const schedule::Plan& plan, simulator::Durations& durations,
                                                  std::int64_t steps = 1, std::int64_t sequences = 1);

std::string trace_text(const schedule::Plan& plan, const std::vector<trace::TraceRecord>& records);

}  // namespace oomb::test
