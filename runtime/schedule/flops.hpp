#pragma once
// Floating-point operations of a cost descriptor: the weight of an operation in progress, ETA and predictions.

#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

// (query, key) pairs that an attention operation evaluates, causal mask and sliding window applied.
double attention_pairs(const AttentionCost& cost);

// GEMM: 2 m n k. Attention forward: 4 head_dim per (query head, pair); backward: 10 (five products). Others: 0.
double flops_of(const Cost& cost);

// FLOPs of one sequence: the sum over what SequenceGenerator lists, from the shape alone.
double step_flops(const StepShape& step);

}  // namespace oomb::schedule
