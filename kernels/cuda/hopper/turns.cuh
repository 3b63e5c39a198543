#pragma once
// How blocks of one launch do something one after another, in device code. Counters lie in global memory and begin at
// 0.
//
// A block waits only for blocks that have begun before it, so that some block can always go on, however few have room.

#include <cstdint>

namespace oomb::kernels::cuda::hopper {

// How many blocks have begun before this one. One thread of the block.
__device__ inline int begun_before(std::int32_t* counter) {
    return atomicAdd(counter, 1);
}

// What was done before pass_turn() of `turn` is done for this thread, additions by the copy engine included.
__device__ inline void await_turn(const std::int32_t* counter, int turn) {
    for (;;) {
        std::int32_t now = 0;
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
        if (now == turn) {
            break;
        }
        __nanosleep(20);
    }
    asm volatile("fence.proxy.async.global;" ::: "memory");
}
// After wait_bulk(), where the copy engine was to add.
__device__ inline void pass_turn(std::int32_t* counter, int next) {
    asm volatile("fence.proxy.async.global;" ::: "memory");
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(counter), "r"(next) : "memory");
}

}  // namespace oomb::kernels::cuda::hopper
