#include "trainer/run/training.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "runtime/core/memory_info.hpp"
#include "runtime/core/model_flops.hpp"
#include "runtime/core/units.hpp"
#include "trainer/run/gradient_file.hpp"
#include "trainer/run/metrics.hpp"
#include "trainer/run/progress.hpp"
#include "trainer/run/resume.hpp"
#include "trainer/run/run_inputs.hpp"
#include "trainer/run/run_report.hpp"
#include "trainer/run/trace_file.hpp"
#include "trainer/weights/random_weights.hpp"

namespace oomb::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration<double>(end - start).count();
}

class TrainingRun {
  public:
    TrainingRun(const TrainingOptions& options, const schedule::Plan& plan, const BackendFactory& make_backend,
                const std::atomic<bool>& stop, std::FILE* log);
    void run();

  private:
    void load_weights();
    void begin_after(const CheckpointFacts& facts);
    void run_steps();
    void keep_state();
    void keep_state_or_say();
    bool is_checkpoint_due() const;
    bool run_step(std::int64_t step);
    void end_step();
    void report_step(std::int64_t step, const StepResult& result, const StepUse& use, double learning_rate);
    RunView view() const { return {options_, plan_, *backend_, *executor_, meter_->total()}; }
    void save(const std::filesystem::path& out);
    void save_step(std::int64_t step);
    template <class... Args>
    void say(fmt::format_string<Args...> format, Args&&... args) const {
        std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), log_);
        std::fflush(log_);
    }

    const TrainingOptions& options_;
    const schedule::Plan& plan_;
    std::FILE* log_;
    const std::atomic<bool>& stop_;
    RunInputs inputs_;
    const std::optional<Checkpoint> resumed_;
    std::unique_ptr<CheckpointFolder> checkpoints_;
    std::unique_ptr<MetricsFile> metrics_;
    std::unique_ptr<TraceFile> trace_;
    std::unique_ptr<Progress> progress_;
    std::unique_ptr<Backend> backend_;  // after what it calls while operations are under way
    std::unique_ptr<Executor> executor_;
    std::unique_ptr<RunMeter> meter_;
    RunFacts facts_;
    std::int64_t kept_step_ = 0;  // of the newest checkpoint
    Clock::time_point kept_at_ = Clock::now();
};

TrainingRun::TrainingRun(const TrainingOptions& options, const schedule::Plan& plan, const BackendFactory& make_backend,
                         const std::atomic<bool>& stop, std::FILE* log)
    : options_(options),
      plan_(plan),
      log_(log),
      stop_(stop),
      inputs_(open_inputs(options, plan, log)),
      resumed_(resumed_checkpoint(options, plan, inputs_, log)) {
    if (resumed_) {
        begin_after(resumed_->facts);
    }
    check_outputs(options_, plan_, inputs_, facts_.resumed_after);
    if (!options_.checkpoint.empty()) {
        checkpoints_ = std::make_unique<CheckpointFolder>(options_.checkpoint, options_.model, plan_);
    }
    if (!options_.metrics.empty()) {
        metrics_ = std::make_unique<MetricsFile>(options_.metrics, facts_.resumed_after);
    }
    if (!options_.trace.empty()) {
        trace_ = std::make_unique<TraceFile>(options_.trace);
    }
    backend_ = make_backend(plan_);
    executor_ = std::make_unique<Executor>(plan_, *backend_, &stop_);
    executor_->replace_lists(options_.lists);
    executor_->skip_sequences(facts_.sequences);
    meter_ = std::make_unique<RunMeter>(*backend_, *executor_);
    if (const std::string missing = backend_->device_reading().missing; !missing.empty()) {
        say("note: {}\n", missing);
    }
    const schedule::StepShape step(plan_.model, plan_.run);
    progress_ = std::make_unique<Progress>(
        options_.learning_rate.steps,
        Progress::Step{.flops = static_cast<double>(options_.accumulation) * sequence_flops(step),
                       .tokens = options_.accumulation * step.tokens(),
                       .chunks = step.chunks()},
        log_);
    backend_->on_done = [this](const schedule::Operation& operation) { progress_->done(operation); };
    if (trace_) {
        trace_->begin(plan_, backend_->device_name());
        backend_->on_timed = [this](const OperationRecord& record) { trace_->write(record); };
        executor_->on_lists([this](const GroupLists& lists) { trace_->write(lists); });
    }
}

void TrainingRun::begin_after(const CheckpointFacts& facts) {
    facts_.steps_done = facts_.resumed_after = kept_step_ = facts.step;
    facts_.sequences = facts.sequences;
    facts_.last_loss = facts.last_loss;
    facts_.cursor = facts.cursor;
}

void TrainingRun::load_weights() {
    if (resumed_) {
        restore(*backend_, *resumed_, plan_);
        return;
    }
    if (!options_.from_scratch) {
        set_weights(*backend_, *inputs_.weights);
        return;
    }
    if (backend_->randomize_weights(options_.seed)) {
        return;
    }
    const auto& parameters = backend_->layout().parameters();
    std::vector<float> random;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        random.resize(parameters[i].elements);
        random_values<float>(parameters[i], options_.seed, random);
        backend_->set_weight(i, std::as_bytes(std::span(random)), DType::kF32);
    }
}

void TrainingRun::run() {
    load_weights();
    kept_at_ = Clock::now();
    run_steps();
    if (!options_.out.empty() && !(facts_.interrupted && checkpoints_)) {
        save(options_.out);
    }
    say("\n{}", run_table(view()));
    keep_state();
}

void TrainingRun::run_steps() {
    for (std::int64_t step = facts_.steps_done + 1; step <= options_.learning_rate.steps; ++step) {
        if (stop_ || !run_step(step)) {
            facts_.interrupted = true;
            say("stopped after {} of {} steps\n", facts_.steps_done, options_.learning_rate.steps);
            return;
        }
        if (saves_after(options_, step)) {
            save_step(step);
        }
        if (is_checkpoint_due()) {
            keep_state_or_say();
        }
    }
}

bool TrainingRun::is_checkpoint_due() const {
    return checkpoints_ && seconds_between(kept_at_, Clock::now()) >= 60 * options_.checkpoint_minutes;
}

// A full disk is no reason to lose the run: it goes on, and tries again when the next checkpoint is due.
void TrainingRun::keep_state_or_say() {
    const auto say_failure = [this](const Error& error) {
        say("warning: the state after step {} could not be kept: {}\n", facts_.steps_done, error.what());
        kept_at_ = Clock::now();
    };
    try {
        keep_state();
    } catch (const FileError& error) {
        say_failure(error);
    } catch (const DoesNotFitError& error) {
        say_failure(error);
    }
}

// A checkpoint, unless there is one of this step. One that nobody can go on from does not replace one before it.
void TrainingRun::keep_state() {
    if (!checkpoints_ || kept_step_ == facts_.steps_done) {
        return;
    }
    if (const NonFinite found = backend_->find_non_finite(); !found.tensor.empty()) {
        fail<NumericError>(
            "{}, element {}, is not finite after step {}: its state is not kept. Go on from the checkpoint before it "
            "with "
            "a lower --learning-rate, or look at the data of this step",
            found.tensor, found.index, facts_.steps_done);
    }
    const std::filesystem::path path =
        checkpoints_->write(*backend_,
                            {.step = facts_.steps_done,
                             .sequences = facts_.sequences,
                             .last_loss = facts_.last_loss,
                             .data_file = options_.data.string(),
                             .data_fingerprint = fingerprint_of(inputs_.reader->source()),
                             .cursor = facts_.cursor,
                             .settings = settings_of(options_, plan_)},
                            run_json(view(), facts_));
    kept_step_ = facts_.steps_done;
    kept_at_ = Clock::now();
    say("kept the state in {}\n", path.string());
}

bool TrainingRun::run_step(std::int64_t step) {
    const DataCursor before = inputs_.reader->cursor();
    std::vector<Sequence> sequences;
    std::vector<SequenceView> views;
    for (std::int64_t i = 0; i < options_.accumulation; ++i) {
        sequences.push_back(inputs_.reader->next());
    }
    for (const Sequence& sequence : sequences) {
        views.push_back({sequence.inputs(), sequence.targets()});
    }
    StepSettings settings = options_.optimizer;
    settings.step = step;
    settings.learning_rate = learning_rate_at(options_.learning_rate, step);
    backend_->begin_step(step);  // a recording may begin with it: not within what is timed
    meter_->begin_step();
    const Clock::time_point start = Clock::now();
    progress_->begin_step(step);
    if (trace_) {
        trace_->begin_step(step);
    }
    StepResult result;
    try {
        result = executor_->compute_gradients(views, settings);
    } catch (const Interrupted&) {
        backend_->wait_idle();  // for the operations that were issued
        end_step();
        inputs_.reader->restore(before);
        return false;
    }
    if (step == facts_.resumed_after + 1 && !options_.dump_gradients.empty()) {
        write_gradients(*backend_, options_.dump_gradients);
    }
    if (options_.updates_weights) {
        executor_->update_weights();
    }
    const double seconds = seconds_between(start, Clock::now());
    end_step();
    facts_.steps_done = step;
    facts_.sequences += options_.accumulation;
    facts_.last_loss = result.loss;
    facts_.cursor = inputs_.reader->cursor();
    const RunConfiguration& run = plan_.run;
    const double flops =
        static_cast<double>(views.size()) * model_flops(plan_.model, run.context_tokens, run.local_window, run.sinks);
    report_step(step, result, meter_->end_step(seconds, result.tokens, flops), settings.learning_rate);
    return true;
}

void TrainingRun::end_step() {
    backend_->end_step();
    progress_->end_step();
    if (trace_) {
        trace_->flush();
    }
}

void TrainingRun::report_step(std::int64_t step, const StepResult& result, const StepUse& use, double learning_rate) {
    if (metrics_) {
        metrics_->write({.step = step,
                         .epoch = facts_.cursor.epoch,
                         .valid_targets = result.valid_targets,
                         .loss = result.loss,
                         .grad_norm = result.gradient_norm,
                         .learning_rate = learning_rate,
                         .use = use,
                         .peak_flops = options_.peak_flops,
                         .device = meter_->reading(),
                         .hbm_bytes = backend_->touched_bytes(Tier::kHbm),
                         .host_bytes = backend_->touched_bytes(Tier::kHost),
                         .library_bytes = backend_->library_peak_bytes(),
                         .resident_bytes = peak_resident_bytes(),
                         .driver_bytes = backend_->driver_peak_bytes()});
    }
    say("step {}/{}: loss {:.4f}, gradient norm {:.3f}, learning rate {:.3g}, {:.0f} tokens/s, {}\n", step,
        options_.learning_rate.steps, result.loss, result.gradient_norm, learning_rate, tokens_per_second(use),
        format_duration(use.seconds));
}

// A run before this one may have written it, after the checkpoint that this one goes on from.
void TrainingRun::save_step(std::int64_t step) {
    const std::filesystem::path folder = step_folder(options_, step);
    std::error_code error;
    if (resumed_ && std::filesystem::exists(folder, error)) {
        say("{} is there already and stays as it is\n", folder.string());
        return;
    }
    save(folder);
}

void TrainingRun::save(const std::filesystem::path& out) {
    std::map<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < backend_->layout().parameters().size(); ++i) {
        by_name[backend_->layout().parameters()[i].name] = i;
    }
    const HfFolderWriter writer(folder_request(options_, plan_, inputs_, out));
    writer.write([&](const StoredTensor& tensor) { return backend_->weight(by_name.at(tensor.name)); },
                 run_json(view(), facts_));
    say("wrote {}\n", out.string());
}

}  // namespace

void run_training(const TrainingOptions& options, const schedule::Plan& plan, const BackendFactory& make_backend,
                  const std::atomic<bool>& stop, std::FILE* log) {
    TrainingRun(options, plan, make_backend, stop, log).run();
}

void check_run(const TrainingOptions& options, const schedule::Plan& plan, std::FILE* log) {
    RunInputs inputs;
    if (options.synthetic || !options.data.empty()) {
        inputs = open_inputs(options, plan, log);
    }
    std::optional<Checkpoint> resumed;
    if (inputs.reader) {
        resumed = resumed_checkpoint(options, plan, inputs, log);
    }
    check_outputs(options, plan, inputs, resumed ? resumed->facts.step : 0);
    if (!options.checkpoint.empty()) {
        CheckpointFolder::check(options.checkpoint, plan);
    }
    if (!options.data.empty()) {
        inputs.reader->next();  // ids that the model does not have
    }
}

}  // namespace oomb::trainer
