#include "timeline/overlap.hpp"

#include <algorithm>
#include <span>

#include "timeline/intervals.hpp"

namespace oomb::timeline {
namespace {

using schedule::Engine;

// The slices that touch [begin, end).
std::span<const Slice> within(const Lane& lane, std::int64_t begin, std::int64_t end) {
    const auto first =
        std::partition_point(lane.begin(), lane.end(), [&](const Slice& s) { return s.end_ns <= begin; });
    const auto last = std::partition_point(first, lane.end(), [&](const Slice& s) { return s.begin_ns < end; });
    return {first, last};
}

// Disjoint and in order, as the slices of a lane are; what touches is joined.
Intervals intervals(std::span<const Slice> slices, std::int64_t begin, std::int64_t end) {
    Intervals found;
    for (const Slice& slice : slices) {
        const Interval cut{std::max(begin, slice.begin_ns), std::min(end, slice.end_ns)};
        if (cut.begin >= cut.end) {
            continue;
        }
        if (!found.empty() && found.back().end == cut.begin) {
            found.back().end = cut.end;
        } else {
            found.push_back(cut);
        }
    }
    return found;
}

CopyTime copy_time(const Intervals& copies, const Intervals& compute, std::span<const Slice> slices, std::int64_t end) {
    CopyTime time{.busy_ns = length(copies), .hidden_ns = common(copies, compute)};
    time.exposed_ns = time.busy_ns - time.hidden_ns;
    for (const Slice& slice : slices) {
        time.bytes += slice.end_ns <= end ? slice.bytes : 0;
    }
    return time;
}

Section section_of(const Slice& slice) {
    Section section{.begin_ns = slice.begin_ns};
    if (slice.id.phase == schedule::Phase::kOptimizer) {
        section.stage = Stage::kOptimizer;
        return section;
    }
    section.stage = slice.id.phase == schedule::Phase::kFill ? Stage::kFill : Stage::kGradient;
    section.sequence = slice.id.sequence;
    section.chunk = slice.id.chunk;
    return section;
}

bool same(const Section& a, const Section& b) {
    return a.stage == b.stage && a.sequence == b.sequence && a.chunk == b.chunk;
}

}  // namespace

Overlap overlap_within(const Timeline& timeline, std::int64_t begin_ns, std::int64_t end_ns) {
    Overlap overlap{.total_ns = end_ns - begin_ns};
    const auto slices_of = [&](Engine engine) { return within(timeline.lane(engine), begin_ns, end_ns); };
    const auto busy = [&](Engine engine) { return intervals(slices_of(engine), begin_ns, end_ns); };
    const auto compute = busy(Engine::kCompute), in = busy(Engine::kHostToDevice), out = busy(Engine::kDeviceToHost);
    const auto copies = joined(in, out);
    overlap.compute_ns = length(compute);
    overlap.exposed_ns = length(copies) - common(copies, compute);
    overlap.idle_ns = overlap.total_ns - length(joined(copies, compute));
    overlap.host_to_device = copy_time(in, compute, slices_of(Engine::kHostToDevice), end_ns);
    overlap.device_to_host = copy_time(out, compute, slices_of(Engine::kDeviceToHost), end_ns);
    for (int engine = 0; engine < schedule::kEngines; ++engine) {
        for (const Slice& slice : slices_of(static_cast<Engine>(engine))) {
            overlap.group_ns[static_cast<std::size_t>(group_of(slice.id.kind))] +=
                std::min(end_ns, slice.end_ns) - std::max(begin_ns, slice.begin_ns);
        }
    }
    return overlap;
}

std::string_view name_of(Stage stage) {
    switch (stage) {
        case Stage::kFill:
            return "fill";
        case Stage::kGradient:
            return "gradient";
        case Stage::kOptimizer:
            return "optimizer";
    }
    return "";
}

std::vector<Section> sections_of(const Timeline& timeline) {
    std::vector<Section> sections;
    for (const Slice& slice : timeline.lane(Engine::kCompute)) {
        const Section here = section_of(slice);
        if (sections.empty() || !same(sections.back(), here)) {
            if (!sections.empty()) {
                sections.back().end_ns = slice.begin_ns;
            }
            sections.push_back(here);
        }
    }
    if (!sections.empty()) {
        sections.front().begin_ns = 0;
        sections.back().end_ns = timeline.end_ns();
    }
    return sections;
}

}  // namespace oomb::timeline
