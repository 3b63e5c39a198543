#pragma once
// NVTX: what a profiler is to know about the calls of an operation.

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

}  // namespace oomb::trainer
