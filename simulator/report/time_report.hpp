#pragma once
// A prediction as text for a terminal and in the plan file.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "simulator/step/prediction.hpp"

namespace oomb::simulator {

// A paragraph for render_plan(): seconds by phase, tokens per second, bytes each way, share of copies hidden,
// utilisation. `evaluates`: of the evaluation of a sequence, which has one phase.
std::string render_time(const Prediction& prediction, bool evaluates = false);

// Top-K: where the lists came from and what of the time is an estimate, two lines; nothing for a step without lists.
std::string list_note(const Prediction& prediction);

// docs/plan-format.md, "time".
nlohmann::ordered_json time_json(const Prediction& prediction);

// The plan file with its key "time", null where nothing is predicted: docs/plan-format.md.
std::string plan_json(const schedule::Plan& plan, const std::optional<Prediction>& prediction);

}  // namespace oomb::simulator
