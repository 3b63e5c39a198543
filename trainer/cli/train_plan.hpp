#pragma once
// What oomb-train is asked for, as far as it is known before anything runs.

#include <cstdio>
#include <optional>
#include <string>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/flags/run_flags.hpp"
#include "simulator/report/limits.hpp"
#include "simulator/step/prediction.hpp"
#include "trainer/cli/train_flags.hpp"

namespace oomb::trainer {

struct TrainPlan {
    TrainingOptions options;
    schedule::Plan plan;
    HardwareProfile times;  // what auto is decided by
    simulator::Limits limits;
    simulator::ListSource lists;                      // of top-K pages: what is predicted, and options.lists refer to
    std::optional<simulator::Prediction> prediction;  // over one sequence; none where the plan does not fit
    std::string not_predicted;                        // why there is none, and what to give; empty: it does not fit
};

// Reads the model, plans, and predicts the time of a step by --hardware or else the known profile of this machine's
// GPU. Throws UsageError, UnsupportedError for what cannot run with this build or device (a dry run may plan for a GPU
// that is elsewhere), and what reading files throws.
TrainPlan train_plan_of(RunFlags run_flags, const TrainFlags& flags, const std::string& command);

// One line each: what the model leaves open, numbers that pass what there is, a context beyond the model's positions.
void print_remarks(const TrainPlan& asked, std::FILE* log);

// For render_plan(): the time of a step, or why none is predicted.
std::string time_text(const TrainPlan& asked);

}  // namespace oomb::trainer
