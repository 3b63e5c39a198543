#pragma once
// CUDA calls and hardware counters in the report. Empty where none were recorded.

#include "profiler/analysis/call_sums.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {

std::string calls_text(const std::vector<NameSum>& calls, std::size_t rows);
std::string counters_text(const std::vector<CounterSum>& counters);

Json calls_json(const std::vector<NameSum>& calls);
Json counters_json(const std::vector<CounterSum>& counters);

}  // namespace oomb::profiler
