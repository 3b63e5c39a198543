#include "simulator/recording.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/schedule/flops.hpp"
#include "runtime/trace/trace.hpp"
#include "simulator/durations.hpp"
#include "simulator/observer.hpp"

namespace oomb::simulator {

using schedule::Engine;
using schedule::kEngines;

namespace {

constexpr std::int64_t kClock_ns = 1'000;  // time stamps of a GPU are read to some tenth of a microsecond
constexpr std::int64_t kMostPageTable_bytes = kGiB;

// What the trace's first step says of all: how many operations there are.
struct Size {
    std::int64_t operations = 0, sequences = 0;
};

Size size_of(const std::filesystem::path& path) {
    trace::TraceReader reader(path);
    Size size;
    std::int64_t step = 0;
    for (trace::TraceRecord record; reader.next(record);) {
        step = step == 0 ? record.step : step;
        if (record.step != step) {
            break;
        }
        ++size.operations;
        size.sequences = std::max<std::int64_t>(size.sequences, record.id.sequence + 1);
    }
    if (size.operations == 0) {
        fail<FileError>("{}: holds no step", path.string());
    }
    return size;
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
    Skeleton(const std::filesystem::path& path, std::int64_t most) : path_(path), most_(most) {
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
        operations.push_back({.id = pack(operation.id),
                              .engine = operation.engine,
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
    std::filesystem::path path_;
    std::int64_t most_;
};

struct Span {
    std::int64_t begin_ns = 0, end_ns = 0;
};

// Adds up steps, one after the other.
class StepSums {
  public:
    StepSums(Skeleton& skeleton, bool one_engine)
        : skeleton_(skeleton), one_engine_(one_engine), spans_(skeleton.operations.size()) {}

    void begin_step() { taken_ = {}; }
    std::int64_t operations() const { return std::ssize(spans_); }
    bool complete() const { return taken() == operations(); }
    std::int64_t taken() const {
        std::int64_t sum = 0;
        for (const std::size_t count : taken_) {
            sum += static_cast<std::int64_t>(count);
        }
        return sum;
    }

    // The next operation of its engine. Empty, or what is wrong with it.
    std::string take(const trace::TraceRecord& record) {
        const auto engine = static_cast<std::size_t>(record.engine);
        const auto& lane = skeleton_.lanes[engine];
        const std::size_t place = taken_[engine];
        const std::string found = fmt::format("found {} on {}", to_text(record.id), name_of(record.engine));
        if (place == lane.size()) {
            return fmt::format("{}, where its plan has no operation more in a step", found);
        }
        const RecordedOperation& expected = skeleton_.operations[lane[place]];
        if (expected.id != pack(record.id) || expected.bytes != record.bytes) {
            return fmt::format(
                "{} moving {} bytes, where its plan has {} moving {}: operations are missing or out of order, or the "
                "trace is of another plan",
                found, record.bytes, to_text(schedule::unpack(expected.id)), expected.bytes);
        }
        if (place > 0 && record.begin_ns < spans_[lane[place - 1]].end_ns - kClock_ns) {
            return fmt::format("{}, begun at {} ns, before the operation before it ends at {} ns", found,
                               record.begin_ns, spans_[lane[place - 1]].end_ns);
        }
        spans_[lane[place]] = {record.begin_ns, record.end_ns};
        ++taken_[engine];
        return {};
    }

    void forget() {
        steps_ = 0;
        sums_ = {};
        for (RecordedOperation& operation : skeleton_.operations) {
            operation.seconds = operation.gap_seconds = 0.0;
        }
    }

    void add_step();
    // Seconds of the step that was added last.
    double last_seconds() const { return last_seconds_; }
    std::int64_t steps() const { return steps_; }
    // Means.
    Prediction finish();

  private:
    std::int64_t ready_ns(std::size_t place, const std::array<std::int64_t, kEngines>& free, std::int64_t all) const;
    bool other_busy(const RecordedOperation& operation, std::int64_t moment) const;
    std::int64_t first_begin() const;

    Skeleton& skeleton_;
    bool one_engine_;
    std::vector<Span> spans_;
    std::array<std::size_t, kEngines> taken_{};
    std::int64_t steps_ = 0;
    double last_seconds_ = 0.0;
    Prediction sums_;
};

std::int64_t StepSums::first_begin() const {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const Span& span : spans_) {
        first = std::min(first, span.begin_ns);
    }
    return first;
}

// As Clock::ready_at, with times that were measured.
std::int64_t StepSums::ready_ns(std::size_t place, const std::array<std::int64_t, kEngines>& free,
                                std::int64_t all) const {
    std::int64_t ready = one_engine_ ? all : free[static_cast<std::size_t>(skeleton_.operations[place].engine)];
    for (std::size_t other = 0; other < kEngines; ++other) {
        if (const std::uint32_t ticket = skeleton_.waits[place][other]; ticket > 0) {
            ready = std::max(ready, spans_[skeleton_.lanes[other][ticket - 1]].end_ns);
        }
    }
    return ready;
}

bool StepSums::other_busy(const RecordedOperation& operation, std::int64_t moment) const {
    const Engine other = operation.engine == Engine::kHostToDevice ? Engine::kDeviceToHost : Engine::kHostToDevice;
    const auto& lane = skeleton_.lanes[static_cast<std::size_t>(other)];
    const auto next =
        std::partition_point(lane.begin(), lane.end(), [&](std::uint32_t at) { return spans_[at].end_ns <= moment; });
    return next != lane.end() && spans_[*next].begin_ns <= moment;
}

void StepSums::add_step() {
    constexpr double kSecond_ns = 1e9;
    const std::int64_t begin = first_begin();
    std::array<std::int64_t, kEngines> free;
    free.fill(begin);
    std::int64_t all = begin, exposed_ns = 0;
    auto idle = skeleton_.idle_before.begin();
    for (std::size_t place = 0; place < spans_.size(); ++place) {
        if (idle != skeleton_.idle_before.end() && *idle == place) {
            free.fill(all);
            ++idle;
        }
        RecordedOperation& operation = skeleton_.operations[place];
        const auto engine = static_cast<std::size_t>(operation.engine);
        const schedule::OperationId id = schedule::unpack(operation.id);
        const Span span = spans_[place];
        const std::int64_t ready = std::min(ready_ns(place, free, all), span.begin_ns);
        const double seconds = static_cast<double>(span.end_ns - span.begin_ns) / kSecond_ns;
        operation.seconds += seconds;
        operation.gap_seconds += static_cast<double>(span.begin_ns - ready) / kSecond_ns;
        operation.both = operation.engine != Engine::kCompute && other_busy(operation, span.begin_ns);
        if (operation.engine == Engine::kCompute) {
            exposed_ns += std::max<std::int64_t>(0, ready - free[engine]);
            sums_.phase_seconds[static_cast<std::size_t>(id.phase)] +=
                static_cast<double>(span.end_ns - free[engine]) / kSecond_ns;
        }
        sums_.uses[static_cast<std::size_t>(id.phase)][engine][static_cast<std::size_t>(id.kind)] +=
            {1, seconds, operation.bytes};
        free[engine] = span.end_ns;
        all = std::max(all, span.end_ns);
    }
    last_seconds_ = static_cast<double>(all - begin) / kSecond_ns;
    sums_.seconds += last_seconds_;
    sums_.exposed_copy_seconds += static_cast<double>(exposed_ns) / kSecond_ns;
    ++steps_;
}

Prediction StepSums::finish() {
    const auto count = static_cast<double>(steps_);
    for (RecordedOperation& operation : skeleton_.operations) {
        operation.seconds /= count;
        operation.gap_seconds /= count;
    }
    Prediction means = sums_;
    means.seconds /= count;
    means.exposed_copy_seconds /= count;
    for (double& seconds : means.phase_seconds) {
        seconds /= count;
    }
    for (auto& phase : means.uses) {
        for (auto& engine : phase) {
            for (Use& use : engine) {
                use = {use.operations / steps_, use.seconds / count, use.bytes / steps_};
            }
        }
    }
    return means;
}

// The steps of a file, as they come.
class Reading {
  public:
    Reading(const std::filesystem::path& path, StepSums& sums, Recording& recording, std::optional<std::int64_t> wanted)
        : path_(path), reader_(path), sums_(sums), recording_(recording), wanted_(wanted) {}

    void read() {
        for (trace::TraceRecord record; reader_.next(record);) {
            if (record.step != step_) {
                end_step(false);
                step_ = record.step;
                first_ = first_ == 0 ? step_ : first_;
                sums_.begin_step();
            }
            if (!wanted_ || *wanted_ == step_) {
                if (const std::string wrong = sums_.take(record); !wrong.empty()) {
                    fail<FileError>("{}, line {}, step {}: {}", path_.string(), reader_.lines(), step_, wrong);
                }
            }
        }
        end_step(true);
        if (reader_.truncated()) {
            recording_.notes.push_back("The last line of the trace is cut off.");
        }
        if (sums_.steps() == 0) {
            refuse();
        }
    }

  private:
    void end_step(bool last) {
        if (step_ == 0 || (wanted_ && *wanted_ != step_)) {
            return;
        }
        if (!sums_.complete()) {
            const std::string text = fmt::format("step {} ends after {} of {} operations", step_,
                                                 format_count(sums_.taken()), format_count(sums_.operations()));
            if (!last) {
                fail<FileError>("{}, line {}: {}", path_.string(), reader_.lines(), text);
            }
            recording_.notes.push_back(fmt::format("Left out: {}.", text));
            return;
        }
        if (sums_.steps() == 1 && recording_.first_step == first_) {
            sums_.forget();
        }
        sums_.add_step();
        const double seconds = sums_.last_seconds();
        const bool only = sums_.steps() == 1;
        recording_.first_step = only ? step_ : recording_.first_step;
        recording_.last_step = step_;
        recording_.least_seconds = only ? seconds : std::min(recording_.least_seconds, seconds);
        recording_.most_seconds = only ? seconds : std::max(recording_.most_seconds, seconds);
    }

    [[noreturn]] void refuse() const {
        if (wanted_ && (*wanted_ < first_ || *wanted_ > step_)) {
            fail<FileError>("{}: has no step {}; it holds {} to {}", path_.string(), *wanted_, first_, step_);
        }
        fail<FileError>("{}: no complete step. {}", path_.string(), fmt::join(recording_.notes, " "));
    }

    std::filesystem::path path_;
    trace::TraceReader reader_;
    StepSums& sums_;
    Recording& recording_;
    std::optional<std::int64_t> wanted_;
    std::int64_t first_ = 0, step_ = 0;
};

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

bool has_one_engine(const schedule::Plan& plan) {
    return plan.run.device == DeviceKind::kCpu;
}

Recording read_recording(const std::filesystem::path& trace, const schedule::Plan& plan,
                         std::optional<std::int64_t> number) {
    const schedule::StepShape shape(plan.model, plan.run);
    if (shape.selects()) {
        fail<UnsupportedError>(
            "{}: of --attention topk, where the pages that move depend on the data and the trace "
            "does not say which they are",
            trace.string());
    }
    if (plan.page_table_bytes > kMostPageTable_bytes) {
        fail<UnsupportedError>("{}: of a run with {} of page tables, replayed are runs with up to {}", trace.string(),
                               format_bytes_short(plan.page_table_bytes), format_bytes_short(kMostPageTable_bytes));
    }
    const Size size = size_of(trace);
    Recording recording;
    {
        const trace::TraceHeader header = trace::TraceReader(trace).header();
        recording.program = header.program;
        recording.device = header.device;
        recording.clock = header.clock;
    }
    recording.sequences = size.sequences;
    Skeleton skeleton(trace, size.operations);
    NoDurations no_durations;
    const Prediction shape_of_step = simulate_step(plan, no_durations, size.sequences, &skeleton);
    StepSums sums(skeleton, has_one_engine(plan));
    Reading(trace, sums, recording, number).read();
    recording.step = sums.finish();
    recording.step.hardware = recording.device;
    recording.step.tokens = shape_of_step.tokens;
    recording.step.model_flops = shape_of_step.model_flops;
    recording.operations = std::move(skeleton.operations);
    return recording;
}

}  // namespace oomb::simulator
