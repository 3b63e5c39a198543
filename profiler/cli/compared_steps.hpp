#pragma once
// The steps that `oomb-profile compare` holds against each other, read from their files.

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/report/comparison_report.hpp"

namespace oomb::profiler {

struct ComparedFiles {
    std::string plan, trace, profile;  // empty: not given
};

struct ComparedSteps {
    BySource<std::optional<StepTimes>> steps;
    ComparisonText about;
};

// Of the plan its only step, of the run the one that choose_step() takes. Throws FileError: a file cannot be read, is
// of another model or has no such step.
ComparedSteps read_steps(const ComparedFiles& files, std::optional<std::int64_t> number);

}  // namespace oomb::profiler
