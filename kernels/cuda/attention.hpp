#pragma once
// kernels/attention.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or BFloat16.
// Frames, slabs, first_touch and document_starts are device memory. Forward and backward are plain: a warp takes a row
// and walks over its keys (or queries) one by one. They are the measure for faster kernels and the fallback, no more.

#include "kernels/attention.hpp"
#include "kernels/cuda/launch.hpp"

namespace oomb::kernels::cuda {

// head_dim is 256 at most, here and in attention_backward.
template <class T>
void attention_forward(const AttentionForward<T>& args, cudaStream_t stream);

// (A, P) is (double, double), (float, float) or (float, BFloat16).
template <class A, class P>
void attention_merge(const AttentionMerge<A, P>& args, cudaStream_t stream);

template <class T>
void attention_delta(const AttentionDelta<T>& args, cudaStream_t stream);

template <class T>
void attention_backward(const AttentionBackward<T>& args, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
