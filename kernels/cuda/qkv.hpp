#pragma once
// kernels/qkv.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or BFloat16.
// head_dim is 512 at most.

#include <cstddef>

#include "kernels/cuda/launch.hpp"
#include "kernels/qkv.hpp"

namespace oomb::kernels::cuda {

// One launch, queries and keys asked for alone or together.
template <class T>
void qkv_forward(const QkvForward<T>& args, cudaStream_t stream);

// Bytes for the sums of biases' and norms' gradients over groups of rows: at most some 264 rows of accumulators, more
// only where a row of heads is short.
template <class T>
std::size_t qkv_backward_workspace_bytes(std::int64_t rows, std::int64_t query_heads, std::int64_t kv_heads,
                                         std::int64_t head_dim);

// `workspace` needs the alignment of Accumulator<T>; not touched where no gradient of a parameter is asked for.
template <class T>
void qkv_backward(const QkvBackward<T>& args, void* workspace, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
