#include "simulator/replay/replay.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/core/error.hpp"

namespace oomb::simulator {

using schedule::Engine;
using schedule::Operation;

namespace {

std::size_t side_of(Engine engine) {
    require(engine == Engine::kHostToDevice || engine == Engine::kDeviceToHost, "no copy engine: {}", name_of(engine));
    return engine == Engine::kDeviceToHost ? 1 : 0;
}

constexpr std::int64_t kMostLarger = 16;  // a copy than the largest that was recorded, for its time to be known

bool same_work(const Work& a, const Work& b) {
    constexpr double kRounding = 1e-12;
    return a.what == b.what && std::abs(a.amount - b.amount) <= kRounding * a.amount;
}

}  // namespace

RecordedDurations::RecordedDurations(const Recording& recording, Host host, const Changes& changes, Durations* stand_in)
    : recording_(recording), host_(host), changes_(changes), stand_in_(stand_in), by_id_(recording.operations.size()) {
    std::iota(by_id_.begin(), by_id_.end(), 0U);
    std::sort(by_id_.begin(), by_id_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return recording_.operations[a].id < recording_.operations[b].id;
    });
    for (const RecordedOperation& recorded : recording_.operations) {
        add(recorded);
    }
}

void RecordedDurations::add(const RecordedOperation& recorded) {
    const auto kind = static_cast<std::size_t>(schedule::unpack(recorded.id).kind);
    for (Mean* mean : {&submissions_[kind], &submissions_.back()}) {
        mean->operations += 1;
        mean->sum.host_seconds += recorded.submission.host_seconds;
        mean->sum.gap_seconds += recorded.submission.gap_seconds;
    }
    if (recorded.engine != Engine::kCompute) {
        RecordedCopies& copies = copies_[side_of(recorded.engine)][recorded.both ? 1 : 0];
        copies.largest_bytes = std::max(copies.largest_bytes, recorded.bytes);
        copies.fit.add(static_cast<double>(recorded.bytes), recorded.seconds);
        return;
    }
    const auto what = static_cast<std::size_t>(recorded.work.what);
    kinds_[kind][what].add(recorded.work.amount, recorded.seconds);
    classes_[what].add(recorded.work.amount, recorded.seconds);
}

// Operations mostly come in the order in which they were recorded.
const RecordedOperation* RecordedDurations::find(const Operation& operation) {
    const std::uint64_t id = pack(operation.id);
    const std::vector<RecordedOperation>& all = recording_.operations;
    for (std::size_t place = next_; place < std::min(next_ + 2, all.size()); ++place) {
        if (all[place].id == id) {
            next_ = place;
            return &all[place];
        }
    }
    const auto found = std::lower_bound(by_id_.begin(), by_id_.end(), id,
                                        [&](std::uint32_t place, std::uint64_t key) { return all[place].id < key; });
    if (found == by_id_.end() || all[*found].id != id) {
        return nullptr;
    }
    next_ = *found;
    return &all[next_];
}

double RecordedDurations::seconds(const Operation& operation, std::int64_t bytes, bool both) {
    return operation.engine == Engine::kCompute ? compute_seconds(operation) : copy_seconds(operation, bytes, both);
}

double RecordedDurations::compute_seconds(const Operation& operation) {
    const Work work = work_of(operation);
    const RecordedOperation* recorded = find(operation);
    if (recorded != nullptr && recorded->engine == operation.engine && same_work(recorded->work, work)) {
        return recorded->seconds;
    }
    const auto what = static_cast<std::size_t>(work.what);
    if (const Fit& kind = kinds_[static_cast<std::size_t>(operation.id.kind)][what]; !kind.empty()) {
        return kind.line().at(work.amount);
    }
    if (work.what == WorkClass::kNone) {
        return 0.0;
    }
    not_recorded_.insert(operation.id.kind);
    if (stand_in_ != nullptr) {
        return stand_in_->seconds(operation, 0, false);
    }
    if (classes_[what].empty()) {
        fail<FileError>("the trace has no {} nor anything like it, which the changed run needs; record one that does",
                        name_of(operation.id.kind));
    }
    return classes_[what].line().at(work.amount);
}

std::optional<double> RecordedDurations::given(Engine engine) const {
    return engine == Engine::kHostToDevice ? changes_.host_to_device : changes_.device_to_host;
}

std::int64_t RecordedDurations::largest_copy_bytes(Engine engine) const {
    const auto& [alone, together] = copies_[side_of(engine)];
    return std::max(alone.largest_bytes, together.largest_bytes);
}

std::optional<Line> RecordedDurations::copy_line(Engine engine, bool both) const {
    const auto& [alone, together] = copies_[side_of(engine)];
    if (alone.fit.empty() && together.fit.empty()) {
        return std::nullopt;
    }
    // What is true of a few small copies says nothing of the others.
    const std::int64_t telling_bytes = largest_copy_bytes(engine) / kMostLarger;
    const Line first = (alone.largest_bytes >= telling_bytes && !alone.fit.empty() ? alone : together).fit.line();
    Line line = both && together.largest_bytes >= telling_bytes && !together.fit.empty() ? together.fit.line() : first;
    if (const std::optional<double> rate = given(engine)) {
        const double slower = first.unit_seconds > 0 ? std::max(1.0, line.unit_seconds / first.unit_seconds) : 1.0;
        line.unit_seconds = slower / *rate;
    }
    return line;
}

std::optional<double> RecordedDurations::copy_rate(Engine engine, bool both) const {
    const std::optional<Line> line = copy_line(engine, both);
    return line && line->unit_seconds > 0 ? std::optional(1 / line->unit_seconds) : std::nullopt;
}

double RecordedDurations::copy_seconds(const Operation& operation, std::int64_t bytes, bool both) {
    if (!changes_.copies()) {
        const RecordedOperation* recorded = find(operation);
        require(recorded != nullptr && recorded->bytes == bytes, "{} is not as it was recorded", to_text(operation.id));
        return recorded->seconds;
    }
    const auto amount = static_cast<double>(bytes);
    const Engine engine = operation.engine;
    const std::optional<Line> line = copy_line(engine, both);
    const bool telling = bytes / kMostLarger <= largest_copy_bytes(engine);
    if (line && (telling || given(engine) || stand_in_ == nullptr)) {
        return line->at(amount);
    }
    if (const std::optional<double> rate = given(engine)) {
        return amount / *rate;
    }
    not_recorded_.insert(operation.id.kind);
    if (stand_in_ != nullptr) {
        return stand_in_->seconds(operation, bytes, both);
    }
    const Engine other = engine == Engine::kHostToDevice ? Engine::kDeviceToHost : Engine::kHostToDevice;
    const std::optional<Line> instead = copy_line(other, both);
    if (!instead) {
        fail<FileError>("the trace has no copies between the tiers, which the changed run needs; give {} in GB/s",
                        engine == Engine::kHostToDevice ? "--host-to-device" : "--device-to-host");
    }
    return instead->at(amount);
}

Submission RecordedDurations::submission(const Operation& operation, std::int64_t /*runs*/) {
    const RecordedOperation* recorded = find(operation);
    if (recorded != nullptr && recorded->engine == operation.engine && same_work(recorded->work, work_of(operation))) {
        return recorded->submission;
    }
    const Mean& kind = submissions_[static_cast<std::size_t>(operation.id.kind)];
    const Mean& mean = kind.operations > 0 ? kind : submissions_.back();
    return {.host_seconds = mean.sum.host_seconds / mean.operations,
            .gap_seconds = mean.sum.gap_seconds / mean.operations};
}

}  // namespace oomb::simulator
