#include "profiler/analysis/steps.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "runtime/core/error.hpp"
#include "runtime/trace/operation_marks.hpp"

namespace oomb::profiler {
namespace {

using timeline::Interval, timeline::Intervals;

constexpr Interval kNothing{std::numeric_limits<std::int64_t>::max(), 0};

void widen(Interval& time, const Interval& by) {
    time = {std::min(time.begin, by.begin), std::max(time.end, by.end)};
}

bool between_tiers(const Copy& copy) {
    return copy.kind == CopyKind::kHostToDevice || copy.kind == CopyKind::kDeviceToHost;
}

struct CallWork {
    Interval time = kNothing;
    std::int64_t busy_ns = 0, bytes = 0;

    void add(const Interval& piece, std::int64_t copied) {
        widen(time, piece);
        busy_ns = add_clamped(busy_ns, piece.end - piece.begin);
        bytes = add_clamped(bytes, copied);
    }
};

std::unordered_map<std::uint32_t, CallWork> work_by_call(const Profile& profile) {
    std::unordered_map<std::uint32_t, CallWork> calls;
    for (const Kernel& kernel : profile.kernels) {
        calls[kernel.correlation].add({kernel.begin_ns, kernel.end_ns}, 0);
    }
    for (const Memset& memset : profile.memsets) {
        calls[memset.correlation].add({memset.begin_ns, memset.end_ns}, 0);
    }
    for (const Copy& copy : profile.copies) {
        calls[copy.correlation].add({copy.begin_ns, copy.end_ns}, between_tiers(copy) ? copy.bytes : 0);
    }
    return calls;
}

bool begins_step(const schedule::OperationId& id) {
    return id.kind == schedule::Kind::kZeroGradients;
}

// Takes the marks in the order of their calls.
class StepFinder {
  public:
    void mark(const OperationMark& mark, const schedule::OperationId& id) {
        if (!began_ || mark.operation != last_) {
            const bool again = !seen_.insert(mark.operation).second;
            if (steps_.empty() || again || begins_step(id)) {
                steps_.push_back({.number = std::ssize(steps_) + 1, .span = kNothing});
                seen_ = {mark.operation};
            }
            has_work_ = false;
        }
        began_ = true;
        last_ = mark.operation;
    }
    // Of the mark before.
    void work(const OperationMark& mark, const schedule::OperationId& id, const CallWork& work) {
        RecordedStep& step = steps_.back();
        if (!has_work_) {
            step.operations.push_back({.id = id, .time = kNothing, .call = mark.correlation});
            has_work_ = true;
        }
        OperationWork& operation = step.operations.back();
        widen(operation.time, work.time);
        widen(step.span, work.time);
        operation.busy_ns = add_clamped(operation.busy_ns, work.busy_ns);
        operation.bytes = add_clamped(operation.bytes, work.bytes);
    }
    std::vector<RecordedStep> finish() {
        std::erase_if(steps_, [](const RecordedStep& step) { return step.operations.empty(); });
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            steps_[i].number = static_cast<std::int64_t>(i) + 1;
        }
        return std::move(steps_);
    }

  private:
    std::vector<RecordedStep> steps_;
    std::unordered_set<std::uint64_t> seen_;  // of this step
    std::uint64_t last_ = 0;
    bool began_ = false, has_work_ = false;
};

// 3 of "step 3"; none of other texts.
std::optional<std::int64_t> step_number(std::string_view name) {
    constexpr std::string_view kWord = "step ";
    std::int64_t number = 0;
    if (!name.starts_with(kWord)) {
        return std::nullopt;
    }
    name.remove_prefix(kWord.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool whole = error == std::errc{} && end == name.data() + name.size() && number > 0;
    return whole ? std::optional(number) : std::nullopt;
}

// A step's work begins after its range; markers are in order of time.
void number_steps(std::vector<RecordedStep>& steps, const Profile& profile) {
    auto step = steps.begin();
    std::optional<std::int64_t> open;
    const auto number_until = [&](std::int64_t moment) {
        for (; step != steps.end() && step->span.begin < moment; ++step) {
            step->numbered = open.has_value();
            step->number = open.value_or(step->number);
        }
    };
    for (const Marker& marker : profile.markers) {
        const auto number = step_number(profile.text(marker.name));
        if (marker.kind == MarkerKind::kBegin && number && profile.text(marker.domain) == trace::kMarkDomain) {
            number_until(marker.at_ns);
            open = number;
        }
    }
    number_until(std::numeric_limits<std::int64_t>::max());
}

Intervals pieces_within(std::vector<Interval> pieces, const Interval& span) {
    return timeline::within(timeline::union_of(std::move(pieces)), span);
}

timeline::CopyTime copy_time(const Intervals& copies, const Intervals& compute, std::int64_t bytes) {
    timeline::CopyTime time{.busy_ns = length(copies), .hidden_ns = common(copies, compute), .bytes = bytes};
    time.exposed_ns = time.busy_ns - time.hidden_ns;
    return time;
}

}  // namespace

std::vector<RecordedStep> steps_of(const Profile& profile) {
    const auto calls = work_by_call(profile);
    StepFinder finder;
    for (const OperationMark& mark : profile.marks) {
        const std::optional<schedule::OperationId> id = profile.operation_of(mark.correlation);
        if (!id) {
            continue;
        }
        finder.mark(mark, *id);
        if (const auto work = calls.find(mark.correlation); work != calls.end()) {
            finder.work(mark, *id, work->second);
        }
    }
    std::vector<RecordedStep> steps = finder.finish();
    number_steps(steps, profile);
    return steps;
}

timeline::Overlap overlap_within(const Profile& profile, const Interval& span) {
    std::vector<Interval> busy, to_device, to_host;
    std::int64_t to_device_bytes = 0, to_host_bytes = 0;
    for (const Kernel& kernel : profile.kernels) {
        busy.push_back({kernel.begin_ns, kernel.end_ns});
    }
    for (const Memset& memset : profile.memsets) {
        busy.push_back({memset.begin_ns, memset.end_ns});
    }
    for (const Copy& copy : profile.copies) {
        const bool in = copy.kind == CopyKind::kHostToDevice;
        (between_tiers(copy) ? in ? to_device : to_host : busy).push_back({copy.begin_ns, copy.end_ns});
        if (between_tiers(copy) && copy.begin_ns >= span.begin && copy.end_ns <= span.end) {
            std::int64_t& bytes = in ? to_device_bytes : to_host_bytes;
            bytes = add_clamped(bytes, copy.bytes);
        }
    }
    const Intervals compute = pieces_within(std::move(busy), span);
    const Intervals in = pieces_within(std::move(to_device), span), out = pieces_within(std::move(to_host), span);
    const Intervals copies = joined(in, out);
    timeline::Overlap overlap{.total_ns = span.end - span.begin,
                              .compute_ns = length(compute),
                              .exposed_ns = length(timeline::without(copies, compute)),
                              .idle_ns = length(timeline::without({span}, joined(copies, compute))),
                              .host_to_device = copy_time(in, compute, to_device_bytes),
                              .device_to_host = copy_time(out, compute, to_host_bytes)};
    require(overlap.compute_ns + overlap.exposed_ns + overlap.idle_ns == overlap.total_ns,
            "compute {} ns, exposed copies {} and idle {} are not the span of {}", overlap.compute_ns,
            overlap.exposed_ns, overlap.idle_ns, overlap.total_ns);
    return overlap;
}

}  // namespace oomb::profiler
