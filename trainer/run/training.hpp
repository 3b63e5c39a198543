#pragma once
// A training run from flags to the written folder, for any backend.

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/data/sequence_reader.hpp"
#include "trainer/executor/executor.hpp"
#include "trainer/run/learning_rate.hpp"

namespace oomb::trainer {

// What the simulator says of one optimizer step; only the programs know it, so it comes as numbers.
struct PredictedStep {
    double seconds = 0.0;
    std::array<double, schedule::kPhases> phase_seconds{};
};

struct TrainingOptions {
    std::string command;  // as typed, for run.json
    std::filesystem::path model;
    std::filesystem::path data;
    std::filesystem::path out;             // empty: weights are not written
    std::filesystem::path metrics;         // empty: none
    std::filesystem::path trace;           // empty: none, and no operation is timed by itself
    std::filesystem::path dump_gradients;  // empty: none
    bool from_scratch = false;             // random weights from the config
    bool synthetic = false;                // random tokens instead of `data`; together with from_scratch
    bool updates_weights = true;           // false: --no-optimizer
    std::int64_t accumulation = 1;         // sequences per optimizer step
    std::int64_t save_every = 0;           // steps; 0: only at the end
    std::filesystem::path checkpoint;      // folder of the run's state; empty: it is not kept
    double checkpoint_minutes = 30.0;      // between two checkpoints, at least; 0: one after every step
    bool resume = false;                   // from the checkpoint, where there is one
    std::uint64_t seed = 0;
    std::int64_t threads = 1;
    LearningRatePlan learning_rate;
    std::optional<double> peak_flops;              // of the device (FLOP/s), where utilisation is to be reported
    std::optional<PredictedStep> predicted;        // for the table at the end
    std::shared_ptr<issue::PageListSource> lists;  // in place of those selected; null: none
    StepSettings optimizer;                        // beta1, beta2, epsilon, weight_decay, max_grad_norm
};

// Makes the backend once the plan stands and the inputs have been checked.
using BackendFactory = std::function<std::unique_ptr<Backend>(const schedule::Plan&)>;

// Everything is read and checked before the first step: weights against the shape, data against the vocabulary and the
// tokenizer, room on the disk for `out` and for checkpoints. `stop` ends the run after the last complete step; then
// `out` is written too, or with `checkpoint` the checkpoint alone. Messages for the user go to `log`.
void run_training(const TrainingOptions& options, const schedule::Plan& plan, const BackendFactory& make_backend,
                  const std::atomic<bool>& stop, std::FILE* log);

// What run_training() checks before it makes a backend, and the token ids of the first sequence: throws as it would.
// Without data only the outputs.
void check_run(const TrainingOptions& options, const schedule::Plan& plan, std::FILE* log);

}  // namespace oomb::trainer
