#pragma once
// Flags of oomb-train beyond those that it shares with oomb-plan.

#include <CLI/CLI.hpp>
#include <string>

#include "profiler/file/recording_request.hpp"
#include "trainer/run/training.hpp"

namespace oomb::trainer {

struct TrainFlags {
    TrainingOptions options;
    std::string schedule = "cosine";
    std::string hardware;           // a known machine or a file; empty: not given
    std::filesystem::path profile;  // file to record to; empty: none
    std::string profile_steps;      // which steps of it, "A:B"; empty: all
    std::string locality;           // --synthetic: which pages lists name; empty: not given
    std::string page_trace;         // the same, as recorded
    bool dry_run = false;
};

// None: all are recorded. Throws UsageError: without --profile, not A:B, or past --steps.
std::optional<profiler::StepRange> profile_steps_of(const TrainFlags& flags);

// Adds the flags in groups. `flags` outlives `app`.
void add_train_flags(CLI::App& app, TrainFlags& flags);

// UsageError for a flag of AdamW that was given although it does not run.
void refuse_unused_optimizer_flags(const CLI::App& app, bool no_optimizer);

// Checks numbers and combinations. Throws UsageError: the flag, what was found, what is allowed.
TrainingOptions to_training_options(const TrainFlags& flags, bool updates_weights, const std::string& model,
                                    const std::string& command);

}  // namespace oomb::trainer
