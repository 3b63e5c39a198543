#pragma once
// What oomb-plan replay prints and writes.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/replay/replay.hpp"

namespace oomb::simulator {

struct Replayed {
    std::string run;      // flags of the recorded run
    std::string changes;  // flags of what is changed; empty: nothing is
    const Recording& recording;
    const RecordedDurations& as_recorded;
    Prediction unchanged;
    std::optional<Prediction> changed = std::nullopt;
    std::vector<std::string> notes = {};  // a sentence each
};

// Recorded, replayed and changed side by side, by phase, copies and what of them is exposed.
std::string replay_table(const Replayed& replayed, const std::string& trace);

// docs/plan-format.md, "oomb-plan-replay".
nlohmann::ordered_json replay_json(const Replayed& replayed);

}  // namespace oomb::simulator
