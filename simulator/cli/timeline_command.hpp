#pragma once
// `oomb-plan timeline`: a step as it would run, or as a trace says it ran, for the eye.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "timeline/timeline.hpp"

namespace oomb::simulator {

// Paths of files to write; empty ones are not.
struct TimelineFiles {
    std::string html;    // one page, self-contained
    std::string chrome;  // for Perfetto and chrome://tracing
    std::string trace;   // docs/trace-format.md
};

// Writes a table of the step to `out`, and the files. `what` is the title: model and context.
// Throws FileError when a file cannot be written; the ones before it are whole.
void write_timeline(const timeline::Timeline& timeline, const std::string& what, const TimelineFiles& files,
                    std::ostream& out);

// "Qwen2.5-7B, 131,072 tokens" and the flags that shape a step, from the plan that a timeline carries. FileError where
// the plan lacks them.
std::string title_of(const timeline::Timeline& timeline, const std::string& model);
std::string facts_of(const timeline::Timeline& timeline);

}  // namespace oomb::simulator
