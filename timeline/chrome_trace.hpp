#pragma once
// A timeline as the trace event format that Perfetto and chrome://tracing read.

#include <cstdint>
#include <limits>
#include <string>

#include "timeline/timeline.hpp"

namespace oomb::timeline {

struct Window {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = std::numeric_limits<std::int64_t>::max();
};

// JSON: a track per engine with the operations that touch the window (times in microseconds), counters of memory in use
// per tier, the sections as a track of their own.
std::string chrome_trace(const Timeline& timeline, const Window& window = {});

}  // namespace oomb::timeline
