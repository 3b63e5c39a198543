#include "simulator/replay/recording.hpp"

#include <algorithm>
#include <array>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/schedule/flops.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "runtime/trace/steps.hpp"
#include "simulator/costs/durations.hpp"
#include "simulator/replay/host_times.hpp"
#include "simulator/step/observer.hpp"

namespace oomb::simulator {

using schedule::Engine;
using schedule::kEngines;

namespace {

constexpr std::int64_t kClock_ns = 1'000;  // time stamps of a GPU are read to some tenth of a microsecond
constexpr double kSecond_ns = 1e9;
constexpr std::int64_t kMostPageTable_bytes = kGiB;

using trace::StepFacts, trace::TraceSteps;

std::string shortness(const TraceSteps& contents, const StepFacts& step) {
    return fmt::format("step {} has {} operations, the first one {}", step.number, format_count(step.operations),
                       format_count(contents.steps.front().operations));
}

StepFacts wanted_step(const TraceSteps& contents, std::int64_t number, const std::string& name) {
    for (const StepFacts& step : contents.steps) {
        if (step.number == number && !contents.complete(step)) {
            fail<FileError>("{}: {}", name, shortness(contents, step));
        }
        if (step.number == number) {
            return step;
        }
    }
    fail<FileError>("{}: has no step {}; it holds {} to {}", name, number, contents.steps.front().number,
                    contents.steps.back().number);
}

std::vector<StepFacts> complete_steps(const TraceSteps& contents, const std::string& name, Recording& recording) {
    std::vector<StepFacts> complete;
    for (const StepFacts& step : contents.steps) {
        if (contents.complete(step)) {
            complete.push_back(step);
        } else if (&step == &contents.steps.back()) {
            recording.notes.push_back(fmt::format("Left out: {}.", shortness(contents, step)));
        } else {
            fail<FileError>("{}: {}", name, shortness(contents, step));
        }
    }
    return complete;
}

StepFacts choose_step(const TraceSteps& contents, std::optional<std::int64_t> number, const std::string& name,
                      Recording& recording) {
    if (number) {
        return wanted_step(contents, *number, name);
    }
    const std::vector<StepFacts> warm = trace::warm_steps(complete_steps(contents, name, recording));
    recording.first_step = warm.front().number;
    recording.last_step = warm.back().number;
    const auto shorter = [](const StepFacts& a, const StepFacts& b) { return a.length_ns() < b.length_ns(); };
    const auto [least, most] = std::minmax_element(warm.begin(), warm.end(), shorter);
    recording.least_seconds = least->seconds();
    recording.most_seconds = most->seconds();
    return trace::median_step(warm);
}

class NoDurations : public Durations {
  public:
    double seconds(const schedule::Operation& /*operation*/, std::int64_t /*bytes*/, bool /*both*/) override {
        return 0.0;
    }
};

// The schedule as it is issued: operations in program order, whom each waits for, and each engine's own order.
class Skeleton : public StepObserver {
  public:
    Skeleton(const schedule::Plan& plan, const std::filesystem::path& path, std::int64_t most)
        : shards_(schedule::optimizer_shards({plan.model, plan.run})), path_(path), most_(most) {
        operations.reserve(static_cast<std::size_t>(most));
        waits.reserve(static_cast<std::size_t>(most));
    }

    void begins(const issue::Issuer& /*issuer*/) override {}
    void ran(const issue::IssuedOperation& issued, double /*begin*/, double /*end*/,
             const issue::Movement& movement) override {
        if (std::ssize(operations) == most_) {
            fail<FileError>(
                "{}: its first step has {} operations, that of its plan has more; it is cut off, or of another plan",
                path_.string(), most_);
        }
        const schedule::Operation& operation = issued.operation;
        lanes[static_cast<std::size_t>(operation.engine)].push_back(static_cast<std::uint32_t>(operations.size()));
        operations.push_back(
            {.id = pack(operation.id),
             .engine = operation.engine,
             .both = operation.id.kind == schedule::Kind::kStoreState && shards_.store_meets_fetch(operation.id.part),
             .work = work_of(operation),
             .bytes = movement.bytes});
        std::copy(issued.waits.begin(), issued.waits.end(), waits.emplace_back().begin());
    }
    void waited() override { idle_before.push_back(operations.size()); }

    std::vector<RecordedOperation> operations;
    std::vector<std::array<std::uint32_t, kEngines>> waits;  // tickets, from 1
    std::array<std::vector<std::uint32_t>, kEngines> lanes;  // places in `operations`
    std::vector<std::size_t> idle_before;                    // operations before which the host waits for all

  private:
    schedule::OptimizerShards shards_;
    std::filesystem::path path_;
    std::int64_t most_;
};

// The times of a step, and what they add up to.
class StepTimes {
  public:
    explicit StepTimes(Skeleton& skeleton) : skeleton_(skeleton), spans_(skeleton.operations.size()) {}

    // The next operation of its engine. Empty, or what is wrong with it.
    std::string take(const trace::TraceRecord& record);
    // When all are taken: gives every operation its times and adds up the step.
    Prediction finish(Host host, std::int64_t begin_ns);

  private:
    std::int64_t ready_ns(std::size_t place, std::int64_t free_ns) const;
    bool other_busy(const RecordedOperation& operation, std::int64_t moment_ns) const;

    Skeleton& skeleton_;
    std::vector<RecordedSpan> spans_;
    std::array<std::size_t, kEngines> taken_{};
};

std::string StepTimes::take(const trace::TraceRecord& record) {
    const auto engine = static_cast<std::size_t>(record.engine);
    const auto& lane = skeleton_.lanes[engine];
    const std::size_t place = taken_[engine];
    const std::string_view on = name_of(record.engine);
    if (place == lane.size()) {
        return fmt::format("found {} on {}, where its plan has no operation more in a step", to_text(record.id), on);
    }
    const RecordedOperation& expected = skeleton_.operations[lane[place]];
    if (expected.id != pack(record.id) || expected.bytes != record.bytes) {
        return fmt::format(
            "found {} on {} moving {} bytes, where its plan has {} moving {}: operations are missing or out of order, "
            "or the trace is of another plan",
            to_text(record.id), on, record.bytes, to_text(schedule::unpack(expected.id)), expected.bytes);
    }
    if (place > 0 && record.begin_ns < spans_[lane[place - 1]].end_ns - kClock_ns) {
        return fmt::format("found {} on {}, begun at {} ns, before the operation before it ends at {} ns",
                           to_text(record.id), on, record.begin_ns, spans_[lane[place - 1]].end_ns);
    }
    spans_[lane[place]] = {record.begin_ns, record.end_ns};
    ++taken_[engine];
    return {};
}

// As Clock::ready_at, with times that were measured.
std::int64_t StepTimes::ready_ns(std::size_t place, std::int64_t free_ns) const {
    std::int64_t ready = free_ns;
    for (std::size_t other = 0; other < kEngines; ++other) {
        if (const std::uint32_t ticket = skeleton_.waits[place][other]; ticket > 0) {
            ready = std::max(ready, spans_[skeleton_.lanes[other][ticket - 1]].end_ns);
        }
    }
    return std::min(ready, spans_[place].begin_ns);  // clocks of two engines differ by less than a microsecond
}

bool StepTimes::other_busy(const RecordedOperation& operation, std::int64_t moment_ns) const {
    const Engine other = operation.engine == Engine::kHostToDevice ? Engine::kDeviceToHost : Engine::kHostToDevice;
    const auto& lane = skeleton_.lanes[static_cast<std::size_t>(other)];
    const auto next = std::partition_point(lane.begin(), lane.end(),
                                           [&](std::uint32_t at) { return spans_[at].end_ns <= moment_ns; });
    return next != lane.end() && spans_[*next].begin_ns <= moment_ns;
}

Prediction StepTimes::finish(Host host, std::int64_t begin_ns) {
    Prediction step;
    HostTimes host_times(skeleton_.operations, spans_, begin_ns);
    std::array<std::int64_t, kEngines> free;
    free.fill(begin_ns);
    std::int64_t all_ns = begin_ns;
    auto idle = skeleton_.idle_before.begin();
    for (std::size_t place = 0; place < spans_.size(); ++place) {
        if (idle != skeleton_.idle_before.end() && *idle == place) {
            free.fill(all_ns);
            host_times.wait_until(all_ns);
            ++idle;
        }
        RecordedOperation& operation = skeleton_.operations[place];
        const auto engine = static_cast<std::size_t>(operation.engine);
        const schedule::OperationId id = schedule::unpack(operation.id);
        const auto [begin, end] = spans_[place];
        const std::int64_t ready = ready_ns(place, host == Host::kOneEngine ? all_ns : free[engine]);
        operation.seconds = static_cast<double>(end - begin) / kSecond_ns;
        operation.both = operation.both || (operation.engine != Engine::kCompute && other_busy(operation, begin));
        if (host == Host::kFollowed) {
            host_times.add(ready);
        } else {
            operation.submission.gap_seconds = static_cast<double>(begin - ready) / kSecond_ns;
        }
        if (operation.engine == Engine::kCompute) {
            step.exposed_copy_seconds += static_cast<double>(std::max(ready, free[engine]) - free[engine]) / kSecond_ns;
            step.phase_seconds[static_cast<std::size_t>(id.phase)] +=
                static_cast<double>(end - free[engine]) / kSecond_ns;
        }
        step.uses[static_cast<std::size_t>(id.phase)][engine][static_cast<std::size_t>(id.kind)] +=
            {1, operation.seconds, operation.bytes};
        free[engine] = end;
        all_ns = std::max(all_ns, end);
    }
    step.seconds = static_cast<double>(all_ns - begin_ns) / kSecond_ns;
    return step;
}

void read_step(const std::filesystem::path& path, std::int64_t number, StepTimes& times) {
    trace::TraceReader reader(path);
    for (trace::TraceRecord record; reader.next(record) && record.step <= number;) {
        if (record.step < number) {
            continue;
        }
        if (const std::string wrong = times.take(record); !wrong.empty()) {
            fail<FileError>("{}, line {}, step {}: {}", path.string(), reader.lines(), number, wrong);
        }
    }
}

}  // namespace

Work work_of(const schedule::Operation& operation) {
    if (operation.engine != Engine::kCompute) {
        return {WorkClass::kCopy, 0.0};
    }
    if (const auto* attention = std::get_if<schedule::AttentionCost>(&operation.cost)) {
        const auto all = static_cast<double>(attention->queries) * static_cast<double>(attention->keys);
        const bool masked = schedule::attention_pairs(*attention) < all;
        const WorkClass forward = masked ? WorkClass::kMaskedAttention : WorkClass::kAttention;
        const WorkClass backward = masked ? WorkClass::kMaskedAttentionBackward : WorkClass::kAttentionBackward;
        return {attention->backward ? backward : forward, schedule::flops_of(operation.cost)};
    }
    if (const auto* pass = std::get_if<schedule::ElementwiseCost>(&operation.cost)) {
        return {WorkClass::kPass, static_cast<double>(pass->bytes)};
    }
    if (const auto* copy = std::get_if<schedule::CopyCost>(&operation.cost)) {
        return {WorkClass::kPass, 2.0 * static_cast<double>(copy->bytes)};
    }
    const bool product = std::holds_alternative<schedule::GemmCost>(operation.cost);
    return {product ? WorkClass::kProduct : WorkClass::kNone, schedule::flops_of(operation.cost)};
}

Host host_of(const schedule::Plan& plan) {
    return plan.run.device == DeviceKind::kCpu ? Host::kOneEngine : Host::kFollowed;
}

Recording read_recording(const std::filesystem::path& trace, const schedule::Plan& plan,
                         std::optional<std::int64_t> number) {
    const schedule::StepShape shape(plan.model, plan.run);
    if (shape.selects()) {
        fail<UnsupportedError>(
            "{}: of --attention topk with lists of pages, which are not replayed; oomb-plan --page-trace {} predicts a "
            "step with the lists that it recorded",
            trace.string(), trace.string());
    }
    if (plan.page_table_bytes > kMostPageTable_bytes) {
        fail<UnsupportedError>("{}: of a run with {} of page tables, replayed are runs with up to {}", trace.string(),
                               format_bytes_short(plan.page_table_bytes), format_bytes_short(kMostPageTable_bytes));
    }
    trace::TraceReader reader(trace);
    Recording recording;
    recording.program = reader.header().program;
    recording.device = reader.header().device;
    const trace::TraceSteps contents = trace::steps_of(reader, trace.string());
    recording.sequences = contents.sequences;
    const StepFacts chosen = choose_step(contents, number, trace.string(), recording);
    if (contents.truncated) {
        recording.notes.emplace_back("The last line of the trace is cut off.");
    }
    recording.number = chosen.number;
    Skeleton skeleton(plan, trace, chosen.operations);
    NoDurations no_durations;
    recording.step = simulate_step(plan, no_durations, contents.sequences, &skeleton);
    if (std::ssize(skeleton.operations) < chosen.operations) {
        fail<FileError>("{}: a step has {} operations, that of its plan {}; it is of another plan", trace.string(),
                        format_count(chosen.operations), format_count(std::ssize(skeleton.operations)));
    }
    StepTimes times(skeleton);
    read_step(trace, chosen.number, times);
    const Prediction counted = recording.step;
    recording.step = times.finish(host_of(plan), chosen.begin_ns);
    recording.step.hardware = recording.device;
    recording.step.tokens = counted.tokens;
    recording.step.model_flops = counted.model_flops;
    recording.operations = std::move(skeleton.operations);
    return recording;
}

}  // namespace oomb::simulator
