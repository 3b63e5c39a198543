#pragma once
// The steps of a trace: how long each took, and which of them stands for the run.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/trace.hpp"

namespace oomb::trace {

struct StepFacts {
    std::int64_t number = 0;      // of the optimizer step
    std::int64_t operations = 0;  // in it
    std::int64_t begin_ns = 0, end_ns = 0;

    std::int64_t length_ns() const { return end_ns - begin_ns; }
    double seconds() const { return static_cast<double>(length_ns()) * 1e-9; }
};

struct TraceSteps {
    std::vector<StepFacts> steps;
    std::int64_t sequences = 0;  // in a step
    bool truncated = false;      // the last line is cut off

    // The first step says how many operations a step has.
    bool complete(const StepFacts& step) const { return step.operations == steps.front().operations; }
};

// Reads to the end. Throws FileError, naming the file `name`, where there is no step, and as the reader does.
TraceSteps steps_of(TraceReader& reader, const std::string& name);

// Without the first, which warms up, if there are more.
std::vector<StepFacts> warm_steps(std::vector<StepFacts> steps);
// Of one or more steps the one of median length. A mean of steps would not wait for itself as any step did.
StepFacts median_step(std::vector<StepFacts> steps);

}  // namespace oomb::trace
