#pragma once
// Small kernels around the large ones: other element types, another order of rows and heads, sums over rows, random
// weights. See launch.hpp for what entry points promise.

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.hpp"
#include "kernels/element.hpp"

namespace oomb::kernels::cuda {

// to[i] = from[i] rounded once, to nearest even; NaN stays NaN, what is too large becomes infinite. From and To are two
// of double, float and BFloat16. The arrays do not overlap.
template <class From, class To>
void convert(const From* from, To* to, std::int64_t count, cudaStream_t stream);

// The log-sum-exp (or delta) of attention, [rows, heads] here, [heads, rows] in libraries. T is float or double; in and
// out do not overlap.
template <class T>
void heads_first(const T* in, T* out, std::int64_t rows, std::int64_t heads, cudaStream_t stream);
template <class T>
void tokens_first(const T* in, T* out, std::int64_t rows, std::int64_t heads, cudaStream_t stream);

// Bytes for add_column_sums; grows with `width`, not with `count` beyond a few thousand.
template <class T>
std::size_t column_sums_workspace_bytes(std::int64_t count, std::int64_t width);

// sums[i] += rows[0, i] + rows[1, i] + ..., rows [count, width]: the gradient of a bias. T is double, float or
// BFloat16; `workspace` needs the alignment of Accumulator<T>.
template <class T>
void add_column_sums(const T* rows, std::int64_t count, std::int64_t width, Accumulator<T>* sums, void* workspace,
                     cudaStream_t stream);

// values[i] = standard_deviation * n(first + i), n normally distributed: synthetic weights. n is the Box-Muller
// transform of 48 bits of SplitMix64's draw (Steele, Lea, Flood 2014) of that number, so that it depends on seed and
// number alone; |n| < 5.8. T is float or BFloat16.
template <class T>
void fill_normal(T* values, std::int64_t count, double standard_deviation, std::uint64_t seed, cudaStream_t stream,
                 std::int64_t first = 0);

}  // namespace oomb::kernels::cuda
