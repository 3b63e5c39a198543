#pragma once
// A plan as text for a terminal. Every size is given short and exact.

#include <string>
#include <vector>

#include "simulator/report/alternatives.hpp"
#include "simulator/report/limits.hpp"

namespace oomb::simulator {

// Shape and run in two paragraphs; a table per tier whose lines add up to the peak, with budget and what is left; notes
// on what was assumed and what is estimated. `model_name` is what the user calls the model; `time` is render_time() or
// empty.
std::string render_plan(const schedule::Plan& plan, const std::string& model_name, const Limits& limits,
                        const std::string& time = "");

// One line per memory that is too small: "GPU memory: asked ..., available ..., short of ...".
std::string render_excesses(const std::vector<Excess>& excesses);

// A line per alternative with its peaks and whether it fits; the first that fits is marked "nearest".
std::string render_alternatives(const std::vector<Alternative>& alternatives, DeviceKind device);

}  // namespace oomb::simulator
