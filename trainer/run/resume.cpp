#include "trainer/run/resume.hpp"

#include <fmt/format.h>

#include "runtime/core/error.hpp"

namespace oomb::trainer {
namespace {

void check_data(const Checkpoint& checkpoint, const TokenSource& source) {
    const CheckpointFacts& facts = checkpoint.facts;
    const bool as_long = facts.cursor.source_tokens == source.tokens();
    if (as_long && facts.data_fingerprint == fingerprint_of(source)) {
        return;
    }
    fail<FileError>(
        "{}: the run was trained on {} ({} tokens), and --data {} {}, so its place in the data means nothing; give it "
        "the same tokens, or start a new run from the weights: --model {}",
        checkpoint.path.string(), facts.data_file, facts.cursor.source_tokens, source.name(),
        as_long ? "holds other tokens" : fmt::format("holds {}", source.tokens()), checkpoint.path.string());
}

}  // namespace

std::map<std::string, std::string> settings_of(const TrainingOptions& options, const schedule::Plan& plan) {
    const RunConfiguration& run = plan.run;
    const StepSettings& adam = options.optimizer;
    const LearningRatePlan& rate = options.learning_rate;
    const auto text = [](const auto& value) { return fmt::format("{}", value); };
    std::map<std::string, std::string> settings{
        {"--steps", text(rate.steps)},
        {"--learning-rate", text(rate.peak)},
        {"--warmup-steps", text(rate.warmup_steps)},
        {"--schedule", rate.schedule == LearningRateSchedule::kCosine ? "cosine" : "constant"},
        {"--gradient-accumulation", text(options.accumulation)},
        {"--weight-decay", text(adam.weight_decay)},
        {"--beta1", text(adam.beta1)},
        {"--beta2", text(adam.beta2)},
        {"--epsilon", text(adam.epsilon)},
        {"--max-grad-norm", text(adam.max_grad_norm)},
        {"--seed", text(options.seed)},
        {"--model", options.model.string()},
        {"--context", text(run.context_tokens)},
        {"--device", text(name_of(run.device))},
        {"--dtype", text(name_of(run.compute))},
        {"--gradient-dtype", text(name_of(run.gradient_type()))},
        {"--master-weights", text(masters_text(run))},
        {"--attention", text(name_of(run.attention))}};
    if (run.attention == AttentionMode::kTopK || run.attention == AttentionMode::kRandom) {
        settings["--top-k"] = text(run.top_k);
        settings["--chunk"] = text(run.chunk_tokens);  // whose own tokens are all attended to
        settings["--page-tokens"] = text(run.page_tokens);
    }
    if (run.attention == AttentionMode::kLocal) {
        settings["--local-window"] = text(run.local_window);
        settings["--sinks"] = text(run.sinks);
    }
    return settings;
}

std::optional<Checkpoint> resumed_checkpoint(const TrainingOptions& options, const schedule::Plan& plan,
                                             RunInputs& inputs, std::FILE* log) {
    if (options.checkpoint.empty()) {
        return std::nullopt;
    }
    std::optional<Checkpoint> checkpoint = newest_checkpoint(options.checkpoint);
    const auto say = [&](const std::string& text) { std::fputs(text.c_str(), log); };
    if (!checkpoint) {
        if (options.resume) {
            say(fmt::format("{} holds no checkpoint: the run begins at its first step\n", options.checkpoint.string()));
        }
        return std::nullopt;
    }
    const std::int64_t done = checkpoint->facts.step;
    if (!options.resume) {
        fail<FileError>(
            "{}: holds the state of a run after step {}; add --resume to go on from it, or name another folder",
            options.checkpoint.string(), done);
    }
    if (done > options.learning_rate.steps) {
        fail<UsageError>("--steps: found {}, and {} is after step {} already; allowed is {} or more",
                         options.learning_rate.steps, checkpoint->path.string(), done, done);
    }
    check_data(*checkpoint, inputs.reader->source());
    inputs.reader->restore(checkpoint->facts.cursor);
    say(fmt::format("resuming from {}, after step {} of {}\n", checkpoint->path.string(), done,
                    options.learning_rate.steps));
    for (const std::string& line : changed_settings(checkpoint->facts, settings_of(options, plan))) {
        say(fmt::format("note: {}\n", line));
    }
    return checkpoint;
}

}  // namespace oomb::trainer
