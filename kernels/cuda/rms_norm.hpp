#pragma once
// kernels/rms_norm.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or BFloat16.

#include <cstddef>

#include "kernels/cuda/launch.hpp"
#include "kernels/rms_norm.hpp"

namespace oomb::kernels::cuda {

template <class T>
void rms_norm_forward(const RmsNormForward<T>& args, cudaStream_t stream);

// Bytes for the sums of d_weight over groups of rows; grows with `width`, not with rows beyond a few thousand.
template <class T>
std::size_t rms_norm_backward_workspace_bytes(std::int64_t rows, std::int64_t width);

// `workspace` needs the alignment of Accumulator<T>. width * sizeof(Accumulator<T>) is 200 KiB at most.
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args, void* workspace, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
