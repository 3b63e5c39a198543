#pragma once
// CPU reference of kernels/embedding.hpp. T is double, float or BFloat16; G is Accumulator<T> or T. A token outside
// the vocabulary throws InternalError (data is checked where it is read) before anything is written.

#include "kernels/embedding.hpp"

namespace oomb::kernels::cpu {

template <class T>
void embedding_forward(const EmbeddingForward<T>& args);

template <class T, class G = Accumulator<T>>
void embedding_backward(const EmbeddingBackward<T, G>& args);

}  // namespace oomb::kernels::cpu
