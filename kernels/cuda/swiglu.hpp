#pragma once
// kernels/swiglu.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or BFloat16.
// Fastest where every pointer lies at 16 bytes and width and row_stride are multiples of 16 bytes.

#include "kernels/cuda/launch.hpp"
#include "kernels/swiglu.hpp"

namespace oomb::kernels::cuda {

template <class T>
void swiglu_forward(const SwigluForward<T>& args, cudaStream_t stream);

template <class T>
void swiglu_backward(const SwigluBackward<T>& args, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
