#pragma once
// How much work it is to simulate a step: the pages that its requests name, in the layers that are walked through.

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

// A step without lists is simulated in all its layers, one with lists of a model from some of them (layer_sample.hpp):
// unless it turns out that compute waits for the host.
enum class Layers : std::uint8_t { kSample, kAll };

// The largest that divides chunks, windows and sinks, and in which the parts that a sliding window makes of a history
// end where they do: as far back as the first query of a chunk sees, and the last one. Tokens.
std::int64_t largest_page(const schedule::Plan& plan);

// All layers look alike but for their lists, and leaving some of them out saves any.
bool can_sample(const schedule::StepShape& step);

// It takes some hundredths of a second to simulate in its own pages, in all its layers.
bool is_quick_in_own_pages(const schedule::Plan& plan);

// Pages that the requests of a step name in these layers, in the largest pages that it can be simulated in: what
// simulating takes grows with it, a second for some 3e7.
double walked_page_uses(const schedule::Plan& plan, Layers layers);

// A step with lists that takes more than some tenths of a second to simulate, or minutes in all its layers: one
// prediction is worth that, a search, which makes some hundred, is not.
bool is_slow_to_predict(const schedule::Plan& plan);

// Why simulating these layers would take minutes; nothing: it does not.
std::optional<std::string> why_too_long(const schedule::Plan& plan, Layers layers);

// Why no time is predicted for this plan: its device, a rate that the profile lacks, or why_too_long(). Nothing: it can
// be, but where a step is sampled and compute turns out to wait for the host (simulate_in_larger_pages).
std::optional<std::string> why_unpredictable(const schedule::Plan& plan, const HardwareProfile& profile,
                                             Layers layers = Layers::kSample);

}  // namespace oomb::simulator
