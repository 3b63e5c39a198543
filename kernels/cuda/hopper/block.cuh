#pragma once
// What kernels of all roles share: rings of stages, warpgroups, tiles by the copy engine, bfloat16 in pairs.

#include "kernels/cuda/hopper/layout.hpp"
#include "kernels/cuda/hopper/tma.cuh"
#include "kernels/cuda/hopper/walk.hpp"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda::hopper {

// Which of the stages of a ring comes next, and in which parity of its barriers.
template <int kStages>
struct RingPlace {
    int stage = 0;
    std::uint32_t parity = 0;

    __device__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// The number of the calling warpgroup, as a value that the compiler knows to be the same in a warp.
__device__ inline int warpgroup_index() {
    return __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
}

// A warp has done with a stage.
__device__ inline void release(MemoryBarrier& empty) {
    if (threadIdx.x % kWarp == 0) {
        empty.arrive();
    }
}

// Loads of one thread, of rows of a head or a page of a KV head.
template <int kHeadDim, int kRows>
__device__ void load_rows_tile(std::uint8_t* to, const CUtensorMap& map, int head, std::int64_t first_row,
                               MemoryBarrier& full) {
#pragma unroll
    for (int box = 0; box < kHeadDim / kBoxColumns; ++box) {
        load_rows(to + box * kRows * kRowBytes, map, box * kBoxColumns, head, static_cast<int>(first_row), full);
    }
}
template <int kHeadDim>
__device__ void load_page_tile(std::uint8_t* to, const CUtensorMap& map, int kv_head, int frame, MemoryBarrier& full) {
#pragma unroll
    for (int box = 0; box < kHeadDim / kBoxColumns; ++box) {
        load_page(to + box * kPageTokens * kRowBytes, map, box * kBoxColumns, kv_head, frame, full);
    }
}

// The operand of one step of a product, of accumulators in their order.
__device__ inline void pack(std::uint32_t (&packed)[4], const float* values) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        packed[j] = pack(values[2 * j], values[2 * j + 1]);
    }
}
template <int kSteps>
__device__ void pack(std::uint32_t (&packed)[kSteps][4], const float (&values)[kSteps * 8]) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        pack(packed[step], values + 8 * step);
    }
}
template <int kSteps, class Step>
__device__ void for_steps(const Step& take) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        take(step);
    }
}

}  // namespace oomb::kernels::cuda::hopper
