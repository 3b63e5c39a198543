#pragma once
// CPU reference of kernels/qkv.hpp. T is double, float or BFloat16.
// Sums over rows run over fixed blocks of rows in ascending order: bits are independent of the number of threads.
// Operands that contradict each other throw InternalError.

#include "kernels/qkv.hpp"

namespace oomb::kernels::cpu {

template <class T>
void qkv_forward(const QkvForward<T>& args);

template <class T>
void qkv_backward(const QkvBackward<T>& args);

}  // namespace oomb::kernels::cpu
