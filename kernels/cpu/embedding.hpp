#pragma once
// CPU reference of kernels/embedding.hpp. T is double, float or BFloat16. A token outside the vocabulary throws
// InternalError (data is checked where it is read) before anything is written.

#include "kernels/embedding.hpp"

namespace oomb::kernels::cpu {

template <class T>
void embedding_forward(const EmbeddingForward<T>& args);

template <class T>
void embedding_backward(const EmbeddingBackward<T>& args);

}  // namespace oomb::kernels::cpu
