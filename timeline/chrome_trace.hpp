#pragma once
// A timeline as the trace event format that Perfetto and chrome://tracing read.

#include <string>

#include "timeline/timeline.hpp"

namespace oomb::timeline {

// JSON: a track per engine with its operations (times in microseconds), counters of memory in use per tier, the
// sections as a track of their own.
std::string chrome_trace(const Timeline& timeline);

}  // namespace oomb::timeline
