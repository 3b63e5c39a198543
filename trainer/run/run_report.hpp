#pragma once
// What a run says of itself: run.json in the output folder, and the table at its end, predicted beside measured.

#include <string>

#include "trainer/executor/executor.hpp"
#include "trainer/run/run_meter.hpp"
#include "trainer/run/training.hpp"

namespace oomb::trainer {

struct RunFacts {
    std::int64_t steps_done = 0;
    std::int64_t resumed_after = 0;  // steps that runs before this one did
    std::int64_t sequences = 0;      // trained on, by them and by this one
    bool interrupted = false;
    double last_loss = 0.0;
    DataCursor cursor;
};

// The run so far; everything outlives it. While the backend is idle.
struct RunView {
    const TrainingOptions& options;
    const schedule::Plan& plan;
    const Backend& backend;
    const Executor& executor;
    const StepUse& total;  // of the complete steps
};

// JSON: command, version, commit, seed, threads, data, optimizer, facts, measurements, plan. Documented in
// docs/run-json.md.
std::string run_json(const RunView& run, const RunFacts& facts);

// Bytes of every tier, page frames, bytes that were copied, seconds by phase, throughput, utilisation, energy. What is
// predicted is the plan's, copies are the schedule's. Documented in docs/run-json.md.
std::string run_table(const RunView& run);

}  // namespace oomb::trainer
