#pragma once
// What a run says of itself: run.json in the output folder, and the table of predicted and measured bytes at the end.

#include <string>

#include "trainer/executor/executor.hpp"
#include "trainer/run/training.hpp"

namespace oomb::trainer {

struct RunFacts {
    std::int64_t steps_done = 0;
    bool interrupted = false;
    double last_loss = 0.0;
    DataCursor cursor;
};

// JSON: command, version, commit, seed, threads, data, optimizer, facts, plan. Documented in docs/run-json.md.
std::string run_json(const TrainingOptions& options, const schedule::Plan& plan, const RunFacts& facts);

// A table: HBM and host arena and page frames, predicted beside measured; LibTorch's own and the process's peak.
std::string memory_table(const schedule::Plan& plan, const Backend& backend, const issue::Issuer& issuer);

}  // namespace oomb::trainer
