#pragma once
// CPU reference of kernels/rms_norm.hpp. T is double, float or BFloat16.
// d_weight is summed over fixed blocks of rows in ascending order: bits are independent of the number of threads.

#include "kernels/rms_norm.hpp"

namespace oomb::kernels::cpu {

template <class T>
void rms_norm_forward(const RmsNormForward<T>& args);

template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args);

}  // namespace oomb::kernels::cpu
