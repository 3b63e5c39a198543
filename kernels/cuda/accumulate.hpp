#pragma once
// Sums of partial results on a CUDA device; see launch.hpp for what entry points promise.

#include <cstdint>

#include "kernels/cuda/launch.hpp"
#include "kernels/element.hpp"

namespace oomb::kernels::cuda {

// sum[i] += part[i]. T is double, float or BFloat16.
template <class T>
void accumulate(const T* part, Accumulator<T>* sum, std::int64_t count, cudaStream_t stream);

// rows[r, i] += bias[i], rows [count, width]. T is double, float or BFloat16.
template <class T>
void add_bias(T* rows, const T* bias, std::int64_t count, std::int64_t width, cudaStream_t stream);

// Occupies a multiprocessor of the stream's device for about `nanoseconds` without touching memory: shakes up the order
// in which streams run, in tests.
void delay(std::int64_t nanoseconds, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
