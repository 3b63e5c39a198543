#pragma once
// Carries out optimizer steps and evaluations: the schedule through the issuer to a backend.

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/issue/issuer.hpp"
#include "runtime/issue/random_pages.hpp"
#include "trainer/executor/backend.hpp"
#include "trainer/executor/copy_counter.hpp"
#include "trainer/executor/list_tap.hpp"
#include "trainer/executor/replaced_lists.hpp"

namespace oomb::trainer {

// One sequence: targets[i] is what should follow tokens[i]; kIgnoredTarget (-100) where nothing is asked.
struct SequenceView {
    std::span<const std::int32_t> tokens;
    std::span<const std::int32_t> targets;
};

struct StepResult {
    double loss = 0.0;  // mean over the valid targets of the step
    std::int64_t tokens = 0;
    std::int64_t valid_targets = 0;
    double gradient_norm = 0.0;  // before clipping
};

struct EvaluationResult {
    double loss = 0.0;  // summed over the valid targets, in float64
    std::int64_t valid_targets = 0;
    std::vector<double> token_losses;  // [tokens], as Backend::token_losses
};

// The step was given up because *stop became true; weights and optimizer state are those of the step before.
class Interrupted : public Error {
  public:
    using Error::Error;
};

class Executor {
  public:
    // All three outlive the executor. `stop` may be null.
    Executor(const schedule::Plan& plan, Backend& backend, const std::atomic<bool>* stop = nullptr);

    // Gradients of all sequences, then their norm. Throws UsageError for a sequence that is empty or longer than the
    // plan's context, or a step without a valid target; NumericError, naming the tensor, when loss or gradient is NaN
    // or infinite; Interrupted, after which the executor is of no further use: pages of the broken step are alive.
    StepResult compute_gradients(std::span<const SequenceView> sequences, StepSettings settings);
    // The optimizer on the gradients just computed, once: the states that it begins with were fetched while they were
    // computed. Not interruptible. Throws InternalError unless compute_gradients() has returned since the last call.
    void update_weights();

    // With a plan of an evaluation: the loss of every target of a sequence. A sequence may have no valid target. Throws
    // as compute_gradients().
    EvaluationResult evaluate(const SequenceView& sequence);

    // A run that goes on after so many sequences: draws of --attention random go on with it. Before the first step.
    void skip_sequences(std::int64_t sequences) { random_.skip_to(sequences); }

    const issue::Issuer& issuer() const { return issuer_; }
    // What the schedule asked a copy engine to move, since the start.
    const issue::Movement& scheduled(schedule::Engine engine) const { return counter_.total(engine); }
    // Top-K: `lists` in place of those that the backend selects, which are made and waited for all the same. To measure
    // what lists of a given locality cost; before the first step.
    void replace_lists(std::shared_ptr<issue::PageListSource> lists) { replaced_.lists = std::move(lists); }
    // Top-K and random: called with the lists of each group of query pages, before the first operation on them is
    // issued, from the thread that calls compute_gradients() or evaluate().
    void on_lists(std::function<void(const GroupLists&)> listener) { lists_.on_lists = std::move(listener); }

  private:
    void run_sequence(const SequenceView& sequence, std::int64_t index, std::int64_t count);
    void check_finite(const StepSums& sums) const;
    std::string first_non_finite() const;

    const schedule::Plan& plan_;
    Backend& backend_;
    const std::atomic<bool>* stop_;
    CopyCounter counter_;  // between the issuer and the backend
    issue::RandomPages random_;
    ReplacedLists replaced_;
    ListTap lists_;  // between who makes lists and the issuer
    issue::Issuer issuer_;
    bool gradients_ready_ = false;  // and the optimizer's first shards are fetched
};

}  // namespace oomb::trainer
