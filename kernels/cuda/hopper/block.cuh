#pragma once
// What kernels of all roles share: shared memory, warpgroups, tiles by the copy engine, bfloat16 in pairs, launches.

#include <cuda_runtime.h>

#include "kernels/cuda/hopper/layout.hpp"
#include "kernels/cuda/hopper/tma.cuh"
#include "kernels/cuda/hopper/walk.hpp"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda::hopper {

// Dynamic shared memory is asked for with room to begin on an atom.
template <class Shared>
constexpr std::size_t kSharedBytes = sizeof(Shared) + kAtomBytes;
template <class Shared>
__device__ Shared& shared_memory() {
    extern __shared__ std::uint8_t bytes[];
    const std::uint32_t beyond = shared_address(bytes) % kAtomBytes;
    return *reinterpret_cast<Shared*>(bytes + (beyond == 0 ? 0 : kAtomBytes - beyond));
}

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

__device__ inline float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Two bfloat16, `low` in the lower half.
__device__ inline std::uint32_t pack(float low, float high) {
    std::uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
template <int kSteps>
__device__ void pack(std::uint32_t (&packed)[kSteps][4], const float (&values)[kSteps * 8]) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            packed[step][j] = pack(values[8 * step + 2 * j], values[8 * step + 2 * j + 1]);
        }
    }
}

// One block to a multiprocessor, `items` of them.
template <class Shared, class Operands>
void launch_blocks(void (*kernel)(Operands), std::int64_t items, int threads, const Operands& op, const char* name,
                   cudaStream_t stream) {
    constexpr std::size_t kBytes = kSharedBytes<Shared>;
    const cudaError_t room =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes));
    require_operand(room == cudaSuccess, name, "shared memory of a block in bytes", kBytes,
                    "what an sm_90 multiprocessor has");
    kernel<<<blocks_for(items, 1), threads, kBytes, stream>>>(op);
    check_launch(name);
}

}  // namespace oomb::kernels::cuda::hopper
