#pragma once
// How much of the copies ran beside compute. All from intervals: nothing is assumed to overlap.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "timeline/timeline.hpp"

namespace oomb::timeline {

// Nanoseconds within some span of time.
struct CopyTime {
    std::int64_t busy_ns = 0;    // hidden + exposed
    std::int64_t hidden_ns = 0;  // compute was busy meanwhile
    std::int64_t exposed_ns = 0;
    std::int64_t bytes = 0;  // of the copies that end within
};

struct Overlap {
    std::int64_t total_ns = 0;
    std::int64_t compute_ns = 0;  // the compute engine was busy
    std::int64_t exposed_ns = 0;  // it was not, and at least one direction copied
    std::int64_t idle_ns = 0;     // neither: total = compute + exposed + idle
    CopyTime host_to_device = {}, device_to_host = {};
    std::array<std::int64_t, kGroups> group_ns{};  // of all engines, by what ran
};

// Of [begin_ns, end_ns). Linear in the slices that lie in it.
Overlap overlap_within(const Timeline& timeline, std::int64_t begin_ns, std::int64_t end_ns);

// A stretch of the step: one stage of one chunk, or the optimizer's phase. It lasts from its first compute operation
// to the first one of the next; together they are the step.
// Forward and backward of a chunk are one section, for a backward may repeat pieces of the forward.
enum class Stage : std::uint8_t { kFill, kGradient, kOptimizer };
std::string_view name_of(Stage stage);

struct Section {
    Stage stage = Stage::kFill;
    std::int64_t sequence = 0, chunk = 0;
    std::int64_t begin_ns = 0, end_ns = 0;
};
std::vector<Section> sections_of(const Timeline& timeline);

}  // namespace oomb::timeline
