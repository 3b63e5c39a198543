#include "runtime/trace/steps.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"

namespace oomb::trace {

TraceSteps steps_of(TraceReader& reader, const std::string& name) {
    TraceSteps found;
    for (TraceRecord record; reader.next(record);) {
        if (found.steps.empty() || found.steps.back().number != record.step) {
            found.steps.push_back({record.step, 0, record.begin_ns, record.end_ns});
        }
        StepFacts& step = found.steps.back();
        ++step.operations;
        step.begin_ns = std::min(step.begin_ns, record.begin_ns);
        step.end_ns = std::max(step.end_ns, record.end_ns);
        found.sequences = std::max<std::int64_t>(found.sequences, record.id.sequence + 1);
    }
    if (found.steps.empty()) {
        fail<FileError>("{}: holds no step", name);
    }
    found.truncated = reader.truncated();
    return found;
}

std::vector<StepFacts> warm_steps(std::vector<StepFacts> steps) {
    if (steps.size() > 1) {
        steps.erase(steps.begin());
    }
    return steps;
}

StepFacts median_step(std::vector<StepFacts> steps) {
    require(!steps.empty(), "the median of no step");
    std::stable_sort(steps.begin(), steps.end(),
                     [](const StepFacts& a, const StepFacts& b) { return a.length_ns() < b.length_ns(); });
    return steps[(steps.size() - 1) / 2];
}

}  // namespace oomb::trace
