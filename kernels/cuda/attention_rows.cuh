#pragma once
// What forward and backward of the plain attention share: rows of head_dim over a warp, and rows of pages.

#include <cstdint>

#include "kernels/attention.hpp"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/pages.cuh"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {

constexpr int kAttentionBlock = 128;
constexpr int kAttentionWarps = kAttentionBlock / kWarp;
constexpr std::int64_t kMostHeadDim = 256;

// One row of up to kMostHeadDim numbers: lane l of the warp holds l, l + 32, ...; zeros beyond head_dim.
template <class A>
struct WarpRow {
    static constexpr int kPerLane = kMostHeadDim / kWarp;
    A e[kPerLane];

    static __device__ WarpRow zeros() {
        WarpRow row;
        for (int j = 0; j < kPerLane; ++j) {
            row.e[j] = 0;
        }
        return row;
    }
    template <class T>
    static __device__ WarpRow read(const T* from, std::int64_t head_dim) {
        WarpRow row;
        for (int j = 0; j < kPerLane; ++j) {
            const std::int64_t i = threadIdx.x % kWarp + j * kWarp;
            row.e[j] = i < head_dim ? widen(from[i]) : A(0);
        }
        return row;
    }
    __device__ void write(A* to, std::int64_t head_dim) const {
        for (int j = 0; j < kPerLane; ++j) {
            const std::int64_t i = threadIdx.x % kWarp + j * kWarp;
            if (i < head_dim) {
                to[i] = e[j];
            }
        }
    }
    // Every lane gets the sum.
    __device__ A dot(const WarpRow& other) const {
        A sum = 0;
        for (int j = 0; j < kPerLane; ++j) {
            sum += e[j] * other.e[j];
        }
        return warp_sum(sum);
    }
    __device__ void scale(A factor) {
        for (int j = 0; j < kPerLane; ++j) {
            e[j] *= factor;
        }
    }
    __device__ void add_scaled(A factor, const WarpRow& other) {
        for (int j = 0; j < kPerLane; ++j) {
            e[j] += factor * other.e[j];
        }
    }
};

// Which row of a grid of kAttentionWarps rows a block this warp has.
__device__ inline std::int64_t row_of_warp() {
    return std::int64_t{blockIdx.x} * kAttentionWarps + threadIdx.x / kWarp;
}

// Rows of a window, [begin, end), counted from its first token, that a query sees; begin >= end for none.
struct KeyRange {
    std::int64_t begin;
    std::int64_t end;
};
template <class T>
__device__ KeyRange visible_keys(const AttentionMask& mask, const paging::PageView<T>& window, std::int64_t query) {
    const std::int64_t begin = mask.begin(query) - window.first_token;
    const std::int64_t end = mask.end(query) - window.first_token;
    return {begin > 0 ? begin : 0, end < window.tokens ? end : window.tokens};
}

}  // namespace oomb::kernels::cuda
