#pragma once
// A recorded step with the edges of its schedule.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "profiler/analysis/profile.hpp"
#include "profiler/report/critical_path_report.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::profiler {

// The operations of a step of `sequences` sequences in program order, each with the ones that it waits for: generated
// and issued again by the code that the run itself had. No times. UnsupportedError: a plan with lists of top-K pages.
std::vector<PathOperation> issued_step(const schedule::Plan& plan, std::int64_t sequences);

// The critical path of a step of the run that `recording`, of the file `profile`, and `trace` are of; the step as
// choose_step() says. The trace's header says how it was planned. At most `most` waits. Throws FileError: no trace, of
// another run, no such step; UnsupportedError as above.
PathFindings find_path(const Profile& recording, const std::string& profile, const std::string& trace,
                       std::optional<std::int64_t> number, std::size_t most);

}  // namespace oomb::profiler
