#pragma once
// Barriers in shared memory that count arrivals and bytes of the copy engine, and named barriers of a block.

#include <cstdint>

#include "kernels/cuda/hopper/device.cuh"

namespace oomb::kernels::cuda::hopper {

// A phase ends when as many threads have arrived as init() said and all bytes expected have come. Phases count from 0;
// wait() takes the parity of the phase whose end is waited for, and passes at once for the one before the first.
struct MemoryBarrier {
    std::uint64_t state;

    // One thread; then fence_initialised() and a barrier of the block.
    __device__ void init(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
    }
    // Releases what this thread wrote to those who wait.
    __device__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
    }
    // Of the phase under way, before its last arrival.
    __device__ void expect(std::uint32_t bytes) {
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(bytes)
                     : "memory");
    }
    __device__ void arrive_expecting(std::uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes)
                     : "memory");
    }
    __device__ void wait(std::uint32_t parity) {
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@!done bra again;\n"
            "}\n" ::"r"(shared_address(this)),
            "r"(parity)
            : "memory");
    }
};

// Barriers just initialised are seen by the copy engine.
__device__ inline void fence_initialised() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// What this thread wrote to shared memory may be read by wgmma and the copy engine, after a barrier.
__device__ inline void fence_for_async_reads() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Named barriers; 0 is __syncthreads(). Whole warps call, `threads` counts those that wait and those that only arrive.
__device__ inline void wait_at(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_at(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Registers of the calling warpgroup's threads from here on; all its warps call.
template <int kRegisters>
__device__ inline void give_up_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace oomb::kernels::cuda::hopper
