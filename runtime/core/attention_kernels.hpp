#pragma once
// Which kernels compute attention with --device cuda: cuDNN's over contiguous windows, or our own for sm_90a over pages
// (docs/cuda-backend.md). One rule for plan, schedule, simulator and backend.

#include "runtime/core/run_configuration.hpp"

namespace oomb {

inline constexpr std::int64_t kOwnKernelsPageTokens = 128;

// There is something to choose: on CUDA in bf16. On the CPU and in fp32 there is one kind of kernels.
bool chooses_attention_kernels(const RunConfiguration& run);

// Our own kernels can compute all of the run's attention; `head_dim` is the model's.
bool own_kernels_take(const RunConfiguration& run, std::int64_t head_dim);

// What the run's `attention_kernels` come to: kAuto only where there is nothing to choose.
AttentionKernels decided_attention_kernels(const RunConfiguration& run, std::int64_t head_dim);

// Throws UsageError where a run asks for kernels that it can't have; `head_dim` where the model is known, else 0.
void check_attention_kernels(const RunConfiguration& run, std::int64_t head_dim = 0);

}  // namespace oomb
