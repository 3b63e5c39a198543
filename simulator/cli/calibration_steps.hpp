#pragma once
// The steps that oomb-plan calibrate runs.

#include <string>
#include <vector>

#include "runtime/core/run_configuration.hpp"

namespace oomb::simulator {

// A model's shape, written as a config file of Hugging Face.
struct CalibrationModel {
    std::string name;  // of the file
    int layers = 0, hidden = 0, ffn = 0, query_heads = 0, kv_heads = 0, vocab = 0;
    bool tied = false;
};
std::string config_json(const CalibrationModel& model);

struct CalibrationStep {
    CalibrationModel model;
    std::string name;   // what is shown while it runs
    int steps = 0;      // the first warms up
    std::string flags;  // of oomb-train beside model, device, steps and files
    // Else only its seconds are read, for what the host takes: traced, the host has more to do.
    bool traced = true;
};

// All that a profile needs, least memory first.
std::vector<CalibrationStep> calibration_steps(DeviceKind device);

}  // namespace oomb::simulator
