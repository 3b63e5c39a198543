#pragma once
// What operations of a recorded run took, put together by what they are: the same work, the same entry.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/step_shape.hpp"
#include "runtime/trace/trace.hpp"

namespace oomb::simulator {

struct ShapeTime {
    schedule::Kind kind = schedule::Kind::kZeroGradients;
    schedule::Engine engine = schedule::Engine::kCompute;
    schedule::Cost cost;  // of a copy: the bytes and pages that travelled
    std::int64_t rows = 0;
    std::uint32_t part = 0;  // of linear_qkv and rope: what they compute; of others 0
    bool both = false;       // a copy that began while the other direction was busy
    bool deterministic = false;
    std::int64_t count = 0;
    double seconds = 0.0;          // median of the operations
    double low = 0.0, high = 0.0;  // quartiles
};

struct RecordedShapes {
    std::vector<ShapeTime> times;
    std::vector<std::string> notes;  // what was left out and why, a sentence each
};

// Of every step but the first, which warms up, where there are more. A last step that is cut off (it has fewer
// operations than the first, or the file ends within a line) is left out with a note. Throws FileError as TraceReader,
// for an operation that the recorded plan does not have, and where no whole step is left. Reads the file once; memory
// grows with the operations of a step.
RecordedShapes shape_times(trace::TraceReader& reader, const schedule::StepShape& step);

}  // namespace oomb::simulator
