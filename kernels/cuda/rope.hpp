#pragma once
// kernels/rope.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or BFloat16.

#include "kernels/cuda/launch.hpp"
#include "kernels/rope.hpp"

namespace oomb::kernels::cuda {

template <class T>
void rope_forward(const RopeRotation<T>& args, cudaStream_t stream);

template <class T>
void rope_backward(const RopeRotation<T>& args, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
