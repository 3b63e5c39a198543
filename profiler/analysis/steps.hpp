#pragma once
// The optimizer steps of a recording of oomb-train, as its marks tell them apart.

#include <cstdint>
#include <vector>

#include "profiler/analysis/profile.hpp"
#include "timeline/intervals.hpp"
#include "timeline/overlap.hpp"

namespace oomb::profiler {

// What an operation gave the device to do in one step.
struct OperationWork {
    schedule::OperationId id;
    timeline::Interval time;   // from the first begin to the last end of its kernels, copies and memsets
    std::int64_t busy_ns = 0;  // these added up
    std::int64_t bytes = 0;    // copied between host and device
    std::uint32_t call = 0;    // correlation of the first call
};

struct RecordedStep {
    std::int64_t number = 0;  // of the optimizer step; where the recording does not say, its place from 1
    bool numbered = false;    // the recording says it
    std::vector<OperationWork> operations = {};  // in the order in which they were called, each once
    timeline::Interval span = {};                // from the first begin to the last end of them all
};

// A step begins with zero_gradients, or where an operation comes that the step has had. Calls are numbered as they are
// made, so those of one operation in one step stand together. Where the recording begins or ends within a step, that
// one has fewer operations.
std::vector<RecordedStep> steps_of(const Profile& profile);

// What the engines of all devices did within `span`, in the words of a trace: compute is kernels, memsets and copies
// within a device. Checked: compute + exposed copies + idle = span.
timeline::Overlap overlap_within(const Profile& profile, const timeline::Interval& span);

}  // namespace oomb::profiler
