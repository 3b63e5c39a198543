#pragma once
// CPU reference of kernels/optimizer.hpp and of the reductions before it. T is double, float or BFloat16; G is
// Accumulator<T> or T.

#include "kernels/optimizer.hpp"

namespace oomb::kernels::cpu {

template <class T, class G = Accumulator<T>>
void adamw_step(const AdamWStep<T, G>& args);

// Sum of squares in float64, over fixed blocks in ascending order: bits are independent of the number of threads.
template <class T>
double sum_of_squares(const T* values, std::int64_t count);

// Index of the first NaN or infinity, or -1.
template <class T>
std::int64_t find_non_finite(const T* values, std::int64_t count);

}  // namespace oomb::kernels::cpu
