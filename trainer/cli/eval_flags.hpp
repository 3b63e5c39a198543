#pragma once
// Flags of oomb-train eval: those of a run, without what only training has, and its own.

#include <CLI/CLI.hpp>
#include <string>

#include "runtime/flags/run_flags.hpp"
#include "trainer/run/evaluation.hpp"

namespace oomb::trainer {

struct EvalFlags {
    RunFlags run;
    EvaluationOptions options;
    std::string buckets;   // empty: powers of two
    std::string budgets;   // numbers of pages; empty: not given
    std::string hardware;  // empty: not given
    std::uint64_t seed = 0;
    bool recall = false;
    bool gradient_error = false;
    bool dry_run = false;
};

// Adds the flags in groups. `flags` outlives `app`.
void add_eval_flags(CLI::App& app, EvalFlags& flags);

// UsageError for a flag that training has and `app` has not.
void refuse_training_flags(const CLI::App& app, int argc, const char* const* argv);

// What is planned and carried out. Throws UsageError: the flag, what was found, what is allowed.
RunConfiguration to_evaluated_run(const EvalFlags& flags);
// Of --gradient-error: training steps without an optimizer, dense attention first, then each number of pages.
std::vector<RunConfiguration> to_compared_runs(const EvalFlags& flags);
EvaluationOptions to_evaluation_options(const EvalFlags& flags, const RunConfiguration& run,
                                        const std::string& command);

}  // namespace oomb::trainer
