#pragma once
// NVTX: what a profiler is to know about the calls of an operation, and of a step.

#include "runtime/schedule/operation.hpp"

namespace oomb::trainer {

// An NVTX range of this thread, from construction to destruction: domain "oomb", named after the operation's kind,
// payload its packed id (runtime/trace/operation_marks.hpp). While no profiler listens, NVTX's calls are jumps that are
// not taken: a few nanoseconds.
class OperationMark {
  public:
    explicit OperationMark(const schedule::OperationId& id);
    OperationMark(const OperationMark&) = delete;
    OperationMark& operator=(const OperationMark&) = delete;
    ~OperationMark();
};

// The same around an optimizer step: "step 3", payload its number.
class StepMark {
  public:
    explicit StepMark(std::int64_t step);
    StepMark(const StepMark&) = delete;
    StepMark& operator=(const StepMark&) = delete;
    ~StepMark();
};

}  // namespace oomb::trainer
