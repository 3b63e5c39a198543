#include "trainer/executor/executor.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cross_entropy.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"

namespace oomb::trainer {
namespace {

// Passes operations on until the run is asked to stop.
class StoppableSink : public schedule::OperationSink {
  public:
    StoppableSink(schedule::OperationSink& next, const std::atomic<bool>* stop) : next_(next), stop_(stop) {}
    void take(const schedule::Operation& operation) override {
        if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
            throw Interrupted("stopped within a step");
        }
        next_.take(operation);
    }

  private:
    schedule::OperationSink& next_;
    const std::atomic<bool>* stop_;
};

// Splits the optimizer's phase: the norm is wanted before the weights are touched.
class NormFilter : public schedule::OperationSink {
  public:
    // Passes on the norm, or all but the norm.
    NormFilter(schedule::OperationSink& next, bool norm) : next_(next), norm_(norm) {}
    void take(const schedule::Operation& operation) override {
        if ((operation.id.kind == schedule::Kind::kGradientNorm) == norm_) {
            next_.take(operation);
        }
    }

  private:
    schedule::OperationSink& next_;
    bool norm_;
};

std::int64_t count_valid(const SequenceView& sequence) {
    return std::count_if(sequence.targets.begin(), sequence.targets.end(),
                         [](std::int32_t target) { return target != kernels::kIgnoredTarget; });
}

void check_sequence(const SequenceView& sequence, std::int64_t context) {
    const auto tokens = static_cast<std::int64_t>(sequence.tokens.size());
    if (tokens < 1 || tokens > context || sequence.targets.size() != sequence.tokens.size()) {
        fail<UsageError>(
            "sequence: {} tokens and {} targets; allowed are equal numbers from 1 to the planned context of {}", tokens,
            sequence.targets.size(), context);
    }
}

}  // namespace

Executor::Executor(const schedule::Plan& plan, Backend& backend, const std::atomic<bool>* stop)
    : plan_(plan),
      backend_(backend),
      stop_(stop),
      counter_(plan, backend),
      random_(schedule::StepShape(plan.model, plan.run)),
      replaced_(backend),
      lists_(schedule::StepShape(plan.model, plan.run),
             plan.run.attention == AttentionMode::kRandom ? static_cast<issue::PageListSource&>(random_) : replaced_),
      issuer_(plan, counter_, &lists_) {}

StepResult Executor::compute_gradients(std::span<const SequenceView> sequences, StepSettings settings) {
    require(!plan_.run.forward_only, "gradients: the plan is that of an evaluation");
    StepResult result;
    for (const SequenceView& sequence : sequences) {
        check_sequence(sequence, plan_.run.context_tokens);
        result.tokens += static_cast<std::int64_t>(sequence.tokens.size());
        result.valid_targets += count_valid(sequence);
    }
    if (result.valid_targets == 0) {
        fail<UsageError>("step: none of its {} targets is valid; a loss needs at least one", result.tokens);
    }
    settings.loss_scale = 1.0 / static_cast<double>(result.valid_targets);
    gradients_ready_ = false;
    backend_.set_step(settings);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        run_sequence(sequences[i], static_cast<std::int64_t>(i), static_cast<std::int64_t>(sequences.size()));
    }
    NormFilter norm(issuer_, true);
    schedule::generate_optimizer(schedule::StepShape(plan_.model, plan_.run), norm);
    backend_.wait_idle();
    const StepSums sums = backend_.sums();
    check_finite(sums);
    require(sums.valid_targets == result.valid_targets, "step: {} targets counted in the loss, {} in the data",
            sums.valid_targets, result.valid_targets);
    result.loss = sums.loss * settings.loss_scale;
    result.gradient_norm = std::sqrt(sums.gradient_squares);
    gradients_ready_ = true;
    return result;
}

void Executor::update_weights() {
    require(gradients_ready_, "update of the weights: no gradients were computed since the last one");
    gradients_ready_ = false;
    NormFilter update(issuer_, false);
    schedule::generate_optimizer(schedule::StepShape(plan_.model, plan_.run), update);
    backend_.wait_idle();
}

EvaluationResult Executor::evaluate(const SequenceView& sequence) {
    require(plan_.run.forward_only, "evaluation: the plan is that of a training step");
    check_sequence(sequence, plan_.run.context_tokens);
    backend_.set_step({});
    run_sequence(sequence, 0, 1);
    backend_.wait_idle();
    const StepSums sums = backend_.sums();
    require(sums.valid_targets == count_valid(sequence), "evaluation: {} targets counted in the loss, {} in the data",
            sums.valid_targets, count_valid(sequence));
    if (!std::isfinite(sums.loss)) {
        fail<NumericError>("loss {} must be finite; {}. Look at the model's weights and the data", sums.loss,
                           first_non_finite());
    }
    return {sums.loss, sums.valid_targets, backend_.token_losses(std::ssize(sequence.tokens))};
}

void Executor::run_sequence(const SequenceView& sequence, std::int64_t index, std::int64_t count) {
    backend_.wait_idle();  // the sequence before still reads its tokens
    backend_.set_sequence(sequence.tokens, sequence.targets);
    lists_.begin_sequence(index);
    RunConfiguration run = plan_.run;
    run.context_tokens = static_cast<std::int64_t>(sequence.tokens.size());
    const schedule::StepShape step(plan_.model, run);
    StoppableSink sink(issuer_, stop_);
    schedule::SequenceGenerator(step, index, count, sink).generate();
    random_.next_sequence();
}

void Executor::check_finite(const StepSums& sums) const {
    if (std::isfinite(sums.loss) && std::isfinite(sums.gradient_squares)) {
        return;
    }
    fail<NumericError>(
        "loss {} and sum of squared gradients {} must be finite; {}. The weights were not changed; lower "
        "--learning-rate or look at the data of this step",
        sums.loss, sums.gradient_squares, first_non_finite());
}

std::string Executor::first_non_finite() const {
    const NonFinite found = backend_.find_non_finite();
    if (found.tensor.empty()) {
        return plan_.run.forward_only ? "every weight is finite" : "every weight and gradient is finite";
    }
    return fmt::format("first: {}, element {}", found.tensor, found.index);
}

}  // namespace oomb::trainer
