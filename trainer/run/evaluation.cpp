#include "trainer/run/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "kernels/cross_entropy.hpp"
#include "runtime/core/memory_info.hpp"
#include "runtime/core/units.hpp"
#include "trainer/run/evaluation_inputs.hpp"
#include "trainer/run/progress.hpp"
#include "trainer/run/run_inputs.hpp"

namespace oomb::trainer {
namespace {

using Clock = std::chrono::steady_clock;

template <class... Args>
void say(std::FILE* log, fmt::format_string<Args...> format, Args&&... args) {
    std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), log);
    std::fflush(log);
}

class EvaluationRun {
  public:
    EvaluationRun(const EvaluationOptions& options, const schedule::Plan& plan, const BackendFactory& make_backend,
                  const std::atomic<bool>& stop, std::FILE* log)
        : options_(options),
          plan_(plan),
          stop_(stop),
          log_(log),
          inputs_(open_evaluation(options, plan, log)),
          name_(options.by_document ? "document" : "sequence"),
          progress_(inputs_.text.size(), Progress::Step{}, log),
          backend_(make_backend(plan)),
          executor_(plan, *backend_, &stop) {
        backend_->on_done = [this](const schedule::Operation& operation) { progress_.done(operation); };
        found_.buckets = position_buckets(options.bucket_ends, plan.run.context_tokens);
        found_.by_bucket.resize(found_.buckets.size());
    }

    Evaluation run() {
        set_weights(*backend_, inputs_.weights);
        const Clock::time_point start = Clock::now();
        std::int64_t tokens = 0;
        for (std::int64_t i = 0; i < inputs_.text.size(); ++i) {
            if (stop_ || !evaluate(i)) {
                found_.interrupted = true;
                say(log_, "stopped after {} of {} {}s\n", i, inputs_.text.size(), name_);
                break;
            }
            tokens += inputs_.text.tokens(i);
        }
        report(tokens, std::chrono::duration<double>(Clock::now() - start).count());
        return std::move(found_);
    }

  private:
    bool evaluate(std::int64_t index) {
        const Sequence sequence = inputs_.text.read(index, plan_.model.vocab);
        RunConfiguration run = plan_.run;
        run.context_tokens = std::ssize(sequence.inputs());
        const schedule::StepShape step(plan_.model, run);
        if (sequence_tokens_ != run.context_tokens) {
            sequence_tokens_ = run.context_tokens;
            sequence_flops_ = sequence_flops(step);
        }
        const Clock::time_point start = Clock::now();
        progress_.begin_step(
            index + 1, {.name = name_, .flops = sequence_flops_, .tokens = step.tokens(), .chunks = step.chunks()});
        EvaluationResult result;
        try {
            result = executor_.evaluate({sequence.inputs(), sequence.targets()});
        } catch (const Interrupted&) {
            progress_.end_step();
            return false;
        }
        progress_.end_step();
        add(sequence, result);
        if (step.measures_recall()) {
            add_recall();
        }
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        const LossSum& loss = found_.documents.back().all;
        say(log_, "{} {}/{}: loss {:.4f} over {} targets, {:.0f} tokens/s, {}\n", name_, index + 1, inputs_.text.size(),
            loss.mean(), format_count(loss.valid_targets), static_cast<double>(step.tokens()) / seconds,
            format_duration(seconds));
        return true;
    }

    void add(const Sequence& sequence, const EvaluationResult& result) {
        DocumentLoss document = document_loss(result, sequence.targets(), found_.buckets);
        document.offset_tokens = sequence.offset_tokens;
        found_.all += document.all;
        for (std::size_t i = 0; i < found_.buckets.size(); ++i) {
            found_.by_bucket[i] += document.by_bucket[i];
        }
        found_.documents.push_back(std::move(document));
        if (!options_.losses.empty()) {
            std::transform(result.token_losses.begin(), result.token_losses.end(),
                           std::back_inserter(found_.token_losses),
                           [](double loss) { return static_cast<float>(loss); });
        }
    }

    void add_recall() {
        const std::vector<RecallSums> sums = backend_->recall();
        found_.recall.resize(sums.size());
        for (std::size_t i = 0; i < sums.size(); ++i) {
            found_.recall[i] += sums[i];
        }
    }

    void report(std::int64_t tokens, double seconds) const {
        const auto tier = [&](Tier one, std::string_view title) {
            return fmt::format("{}: planned {}, used {}\n", title,
                               format_bytes(plan_.arena_bytes[static_cast<int>(one)]),
                               format_bytes(backend_->touched_bytes(one)));
        };
        const bool cuda = plan_.run.device == DeviceKind::kCuda;
        say(log_, "{}{}{} tokens in {}, process at most {}\n", tier(Tier::kHbm, cuda ? "GPU arena" : "device arena"),
            tier(Tier::kHost, "host arena"), format_count(tokens), format_duration(seconds),
            format_bytes_short(peak_resident_bytes()));
    }

    const EvaluationOptions& options_;
    const schedule::Plan& plan_;
    const std::atomic<bool>& stop_;
    std::FILE* log_;
    EvaluationInputs inputs_;
    std::string_view name_;
    Progress progress_;
    std::unique_ptr<Backend> backend_;  // after what it calls while operations are under way
    Executor executor_;
    Evaluation found_;
    std::int64_t sequence_tokens_ = 0;
    double sequence_flops_ = 0.0;
};

}  // namespace

LossSum& LossSum::operator+=(const LossSum& other) {
    loss += other.loss;
    valid_targets += other.valid_targets;
    return *this;
}

std::vector<PositionBucket> position_buckets(const std::vector<std::int64_t>& ends, std::int64_t context) {
    constexpr std::int64_t kFirstEnd = 128;
    std::vector<PositionBucket> buckets;
    std::size_t next = 0;
    for (std::int64_t first = 0; first < context; first = buckets.back().end) {
        const std::int64_t doubled = first == 0 ? kFirstEnd : 2 * first;
        const std::int64_t end = ends.empty() ? doubled : next < ends.size() ? ends[next++] : context;
        buckets.push_back({first, std::min(end, context)});
    }
    return buckets;
}

DocumentLoss document_loss(const EvaluationResult& result, std::span<const std::int32_t> targets,
                           const std::vector<PositionBucket>& buckets) {
    DocumentLoss document;
    document.tokens = std::ssize(targets);
    document.all = {result.loss, result.valid_targets};
    for (const PositionBucket& bucket : buckets) {
        LossSum sum;
        for (std::int64_t i = bucket.first; i < std::min(bucket.end, document.tokens); ++i) {
            sum.loss += result.token_losses[i];
            sum.valid_targets += targets[i] == kernels::kIgnoredTarget ? 0 : 1;
        }
        document.by_bucket.push_back(sum);
    }
    return document;
}

EvaluationInputs open_evaluation(const EvaluationOptions& options, const schedule::Plan& plan, std::FILE* log) {
    WeightFolder weights = open_weights(options.model, plan.model, log);
    const TokenInput tokens = open_tokens(options.data, options.model, log);
    check_vocabulary(*tokens.source, plan.model.vocab);
    const std::int64_t context = plan.run.context_tokens;
    EvaluatedText text = options.by_document
                             ? EvaluatedText::in_documents(tokens.source, tokens.sidecar, context, options.sequences)
                             : EvaluatedText::in_sequences(tokens.source, context, options.sequences);
    for (const std::filesystem::path& file : {options.json, options.losses}) {
        if (!file.empty()) {
            check_output_file(file);
        }
    }
    say(log, "{}\n", text.describe());
    return {std::move(weights), std::move(text)};
}

Evaluation run_evaluation(const EvaluationOptions& options, const schedule::Plan& plan,
                          const BackendFactory& make_backend, const std::atomic<bool>& stop, std::FILE* log) {
    return EvaluationRun(options, plan, make_backend, stop, log).run();
}

void check_evaluation(const EvaluationOptions& options, const schedule::Plan& plan, std::FILE* log) {
    open_evaluation(options, plan, log).text.read(0, plan.model.vocab);
}

}  // namespace oomb::trainer
