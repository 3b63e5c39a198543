#pragma once
// CPU reference of kernels/swiglu.hpp. T is double, float or BFloat16.

#include "kernels/swiglu.hpp"

namespace oomb::kernels::cpu {

template <class T>
void swiglu_forward(const SwigluForward<T>& args);

template <class T>
void swiglu_backward(const SwigluBackward<T>& args);

}  // namespace oomb::kernels::cpu
