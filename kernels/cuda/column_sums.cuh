#pragma once
// Second stage of sums over rows: partial sums of groups of rows become column sums, in a fixed order.

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {

// sums[i] += partials[i] + partials[stride + i] + ..., `count` terms, i < width. Null sums: nothing.
template <class A>
struct ColumnSums {
    const A* partials = nullptr;
    A* sums = nullptr;
    std::int64_t count = 0;
    std::int64_t stride = 0;
    std::int64_t width = 0;
};
template <class A, int Count>
struct ColumnSumsList {
    ColumnSums<A> sums[Count];
};

// A block sums 32 columns: 16 threads a column take every 16th partial, then their sums are added in order.
constexpr int kSumSlices = 16;
template <class A, int Count>
__global__ void __launch_bounds__(kWarp* kSumSlices) sum_partials_kernel(const ColumnSumsList<A, Count> list) {
    __shared__ A slices[kSumSlices][kWarp];
    const ColumnSums<A>& own = list.sums[blockIdx.y];
    const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
    const bool has_column = own.sums != nullptr && column < own.width;
    A sum = 0;
    if (has_column) {
#pragma unroll 8
        for (std::int64_t i = threadIdx.y; i < own.count; i += kSumSlices) {
            sum += own.partials[i * own.stride + column];
        }
    }
    slices[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && has_column) {
        A total = own.sums[column];
        for (int slice = 0; slice < kSumSlices; ++slice) {
            total += slices[slice][threadIdx.x];
        }
        own.sums[column] = total;
    }
}

template <class A, int Count>
void add_partial_sums(const ColumnSumsList<A, Count>& list, const char* kernel, cudaStream_t stream) {
    std::int64_t widest = 0;
    for (const ColumnSums<A>& sums : list.sums) {
        widest = std::max(widest, sums.sums != nullptr ? sums.width : 0);
    }
    if (widest > 0) {
        sum_partials_kernel<<<dim3(blocks_for(widest, kWarp), Count), dim3(kWarp, kSumSlices), 0, stream>>>(list);
        check_launch(kernel);
    }
}

}  // namespace oomb::kernels::cuda
