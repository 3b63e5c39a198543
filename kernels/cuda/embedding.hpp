#pragma once
// kernels/embedding.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or BFloat16;
// G is Accumulator<T> or T.
// Tokens are checked where they are read: one outside the vocabulary gives a row of NaN and no gradient.

#include "kernels/cuda/launch.hpp"
#include "kernels/embedding.hpp"

namespace oomb::kernels::cuda {

template <class T>
void embedding_forward(const EmbeddingForward<T>& args, cudaStream_t stream);

// Looks for equal tokens by comparing all rows with all: for chunks of some ten thousand rows.
template <class T, class G = Accumulator<T>>
void embedding_backward(const EmbeddingBackward<T, G>& args, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
