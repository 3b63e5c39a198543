#pragma once
// Sums over a warp or a block in a fixed order. Every thread of the group gets the result.

#include <cstdint>

namespace oomb::kernels::cuda {

constexpr unsigned kWholeWarp = 0xffffffffU;
constexpr int kWarp = 32;

template <class A>
__device__ inline A warp_sum(A value) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}

// The value of the lane whose number differs by the bits of `distance`. Overloaded where a value is a struct.
template <class A>
__device__ inline A exchange(const A& value, int distance) {
    return __shfl_xor_sync(kWholeWarp, value, distance);
}

struct Plus {
    template <class A>
    __device__ A operator()(A left, A right) const {
        return left + right;
    }
};
// Passes NaN over.
struct Larger {
    template <class A>
    __device__ A operator()(A left, A right) const {
        return fmax(left, right);
    }
};

// Threads is a power of two up to a warp, all of which calls together, or a whole block. `empty` is the neutral
// element.
template <int Threads, class A, class Combine>
__device__ inline A combine_over(A value, A empty, const Combine& combine) {
    for (int distance = (Threads < kWarp ? Threads : kWarp) / 2; distance > 0; distance /= 2) {
        value = combine(value, exchange(value, distance));
    }
    if constexpr (Threads > kWarp) {
        __shared__ A parts[Threads / kWarp];
        __syncthreads();  // of an earlier call every thread has read all parts
        if (threadIdx.x % kWarp == 0) {
            parts[threadIdx.x / kWarp] = value;
        }
        __syncthreads();
        value = empty;
        for (int i = 0; i < Threads / kWarp; ++i) {
            value = combine(value, parts[i]);
        }
    }
    return value;
}

template <int Threads, class A>
__device__ inline A sum_over(A value) {
    return combine_over<Threads>(value, A(0), Plus{});
}

}  // namespace oomb::kernels::cuda
