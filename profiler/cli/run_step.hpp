#pragma once
// Which step of a run is looked at, where its trace, its recording or both tell of it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analysis/steps.hpp"
#include "runtime/trace/steps.hpp"

namespace oomb::profiler {

struct RunFiles {
    std::string trace;                   // empty: none
    std::string profile;                 // the file that `recording` is of
    const Profile* recording = nullptr;  // null: none
};

struct RunStep {
    std::optional<trace::StepFacts> traced;
    std::optional<RecordedStep> recorded;
    std::int64_t sequences = 0;      // in a step of the trace
    std::string why;                 // ", of median length of 4 from 2 to 5"; empty where it was asked for
    std::vector<std::string> notes;  // sentences on what is not whole
};

// Step `number` of the trace (without one, of the recording), or that one of median length among the steps which are
// complete in both, without the first if there are more. Steps of the same number are the same; where the recording has
// no numbers its first step is taken for the first of the trace. Throws FileError: no trace, a recording without
// operations, no such step; UnsupportedError: none is complete.
RunStep choose_step(const RunFiles& files, std::optional<std::int64_t> number);

// Throws FileError, naming `file`, where the recording does not say which operations made its calls.
void require_marks(const Profile& profile, const std::string& file);

}  // namespace oomb::profiler
