#pragma once
// What every entry point of the CUDA kernels shares.
//
// Entry points take the operands of kernels/*.hpp with device pointers and a stream, and return once the work is in the
// stream. They allocate nothing: a kernel that needs room of its own takes a workspace and has a function that says how
// many bytes. Sums run in an order that operands alone fix, so the same operands give the same bits on any sm_90 card.
// Zero rows or elements are legal and launch nothing. Operands that contradict each other throw InternalError.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace oomb::kernels::cuda {

// Throws Error if the launch just made in this thread was refused; `kernel` names it. Never waits.
void check_launch(const char* kernel);

// Throws InternalError unless `holds`: "<kernel>: <what> is <found>, but must be <allowed>".
void require_operand(bool holds, const char* kernel, const char* what, std::int64_t found, const char* allowed);

// Blocks of a grid's first dimension for `items` of which a block takes `per_block`; items > 0.
unsigned blocks_for(std::int64_t items, std::int64_t per_block);

}  // namespace oomb::kernels::cuda
