#pragma once
// kernels/optimizer.hpp and the reductions before it on a CUDA device; see launch.hpp for what entry points promise.
// T is double, float or BFloat16; G is Accumulator<T> or T.

#include <cstddef>

#include "kernels/cuda/launch.hpp"
#include "kernels/optimizer.hpp"

namespace oomb::kernels::cuda {

template <class T, class G = Accumulator<T>>
void adamw_step(const AdamWStep<T, G>& args, cudaStream_t stream);

// split_weight() of each of `count` master weights. The arrays do not overlap.
void split_masters(const float* masters, BFloat16* weights, std::uint16_t* remainders, std::int64_t count,
                   cudaStream_t stream);

// Bytes of the workspace of sum_of_squares, whatever the count.
std::size_t sum_of_squares_workspace_bytes();

// Adds the sum of squares, in float64, to *sum on the device: one sum over many tensors, cleared by the caller.
template <class T>
void sum_of_squares(const T* values, std::int64_t count, double* sum, void* workspace, cudaStream_t stream);

// *index on the device becomes the index of the first NaN or infinity, or -1.
template <class T>
void find_non_finite(const T* values, std::int64_t count, std::int64_t* index, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
