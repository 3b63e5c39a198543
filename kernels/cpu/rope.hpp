#pragma once
// CPU reference of kernels/rope.hpp, in place. T is double, float or BFloat16.

#include "kernels/rope.hpp"

namespace oomb::kernels::cpu {

template <class T>
void rope_forward(const RopeRotation<T>& args);

template <class T>
void rope_backward(const RopeRotation<T>& args);

}  // namespace oomb::kernels::cpu
