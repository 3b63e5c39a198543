#include "timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/core/error.hpp"

namespace oomb::timeline {

using schedule::Kind;

void Timeline::add(const trace::TraceRecord& record) {
    Lane& lane = lanes[static_cast<std::size_t>(record.engine)];
    if (record.end_ns < record.begin_ns || (!lane.empty() && record.begin_ns < lane.back().end_ns)) {
        fail<FileError>("trace: {} on {} runs from {} to {} ns, and the one before it ends at {} ns",
                        schedule::to_text(record.id), schedule::name_of(record.engine), record.begin_ns, record.end_ns,
                        lane.empty() ? 0 : lane.back().end_ns);
    }
    lane.push_back({record.id, record.begin_ns, record.end_ns, record.bytes, record.pages});
}

std::int64_t Timeline::end_ns() const {
    std::int64_t end = 0;
    for (const Lane& lane : lanes) {
        end = std::max(end, lane.empty() ? 0 : lane.back().end_ns);
    }
    return end;
}

std::int64_t Timeline::operations() const {
    std::int64_t count = 0;
    for (const Lane& lane : lanes) {
        count += std::ssize(lane);
    }
    return count;
}

namespace {

void begin_at_zero(Timeline& timeline) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const Lane& lane : timeline.lanes) {
        first = std::min(first, lane.empty() ? first : lane.front().begin_ns);
    }
    for (Lane& lane : timeline.lanes) {
        for (Slice& slice : lane) {
            slice.begin_ns -= first;
            slice.end_ns -= first;
        }
    }
}

}  // namespace

Timeline read_timeline(const std::filesystem::path& path, std::optional<std::int64_t> step) {
    trace::TraceReader reader(path);
    Timeline timeline{.program = reader.header().program,
                      .device = reader.header().device,
                      .clock = reader.header().clock,
                      .plan = reader.header().plan};
    std::int64_t first = 0, last = 0;
    for (trace::TraceRecord record; reader.next(record);) {
        first = first == 0 ? record.step : first;
        last = record.step;
        if (step && record.step != *step) {
            continue;
        }
        if (record.step != timeline.step) {  // only the last step stays
            timeline.step = record.step;
            timeline.lanes = {};
        }
        timeline.add(record);
    }
    if (timeline.operations() == 0) {
        fail<FileError>("{}: {}", path.string(),
                        last == 0 ? std::string("holds no step")
                                  : fmt::format("has no step {}; it holds {} to {}", step.value_or(0), first, last));
    }
    begin_at_zero(timeline);
    return timeline;
}

MemoryTrack thinned(const MemoryTrack& track, std::int64_t most) {
    const auto sum_of = [](const MemoryPoint& point) {
        return std::accumulate(point.bytes.begin(), point.bytes.end(), std::int64_t{0});
    };
    MemoryTrack thin = track;
    thin.points.clear();
    const std::int64_t run = (std::ssize(track.points) + most - 1) / most;
    for (auto first = track.points.begin(); first != track.points.end();) {
        const auto end = first + std::min<std::ptrdiff_t>(run, track.points.end() - first);
        const auto largest = std::max_element(
            first, end, [&](const MemoryPoint& a, const MemoryPoint& b) { return sum_of(a) < sum_of(b); });
        thin.points.push_back({first->at_ns, largest->bytes});
        first = end;
    }
    return thin;
}

Group group_of(Kind kind) {
    switch (kind) {
        case Kind::kLinearQkv:
        case Kind::kLinearOutput:
        case Kind::kLinearGateUp:
        case Kind::kLinearDown:
        case Kind::kLinearHead:
        case Kind::kLinearHeadWeightGradient:
        case Kind::kLinearHeadInputGradient:
        case Kind::kLinearDownWeightGradient:
        case Kind::kLinearDownInputGradient:
        case Kind::kLinearGateUpWeightGradient:
        case Kind::kLinearGateUpInputGradient:
        case Kind::kLinearOutputWeightGradient:
        case Kind::kLinearOutputInputGradient:
        case Kind::kLinearQkvWeightGradient:
        case Kind::kLinearQkvInputGradient:
            return Group::kLinear;
        case Kind::kPageMeans:
        case Kind::kPageScores:
        case Kind::kSelectPages:
        case Kind::kAttention:
        case Kind::kMerge:
        case Kind::kFinishAttention:
        case Kind::kAttentionDelta:
        case Kind::kAttentionBackward:
        case Kind::kPageMass:
        case Kind::kPageRecall:
            return Group::kAttention;
        case Kind::kFetch:
        case Kind::kPrefetch:
        case Kind::kWriteBack:
        case Kind::kRelease:
        case Kind::kStoreLists:
            return Group::kPages;
        case Kind::kKeepActivation:
        case Kind::kLoadActivation:
            return Group::kActivations;
        case Kind::kFetchState:
        case Kind::kStoreState:
            return Group::kStates;
        case Kind::kLoadTokens:
        case Kind::kStoreLosses:
            return Group::kTokens;
        case Kind::kGradientNorm:
        case Kind::kOptimizer:
            return Group::kOptimizer;
        default:  // element-wise
            return Group::kPasses;
    }
}

std::string_view name_of(Group group) {
    switch (group) {
        case Group::kLinear:
            return "linear layers";
        case Group::kAttention:
            return "attention";
        case Group::kPasses:
            return "passes over memory";
        case Group::kOptimizer:
            return "optimizer";
        case Group::kPages:
            return "K/V pages and gradients";
        case Group::kActivations:
            return "kept activations";
        case Group::kStates:
            return "optimizer states";
        case Group::kTokens:
            return "tokens";
    }
    return "";
}

}  // namespace oomb::timeline
