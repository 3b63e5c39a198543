#pragma once
// What of the kernels only a device compiles, but for barriers (mbarrier.cuh), copies (tma.cuh) and products
// (wgmma.cuh). The host's tests run the kernels on a model of these four headers (tests/kernels/emulation/machine.hpp).

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hopper/layout.hpp"
#include "kernels/cuda/launch.hpp"

namespace oomb::kernels::cuda::hopper {

__device__ inline std::uint32_t shared_address(const void* pointer) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Dynamic shared memory is asked for with room to begin on an atom.
template <class Shared>
constexpr std::size_t kSharedBytes = sizeof(Shared) + kAtomBytes;
template <class Shared>
__device__ Shared& shared_memory() {
    extern __shared__ std::uint8_t bytes[];
    const std::uint32_t beyond = shared_address(bytes) % kAtomBytes;
    return *reinterpret_cast<Shared*>(bytes + (beyond == 0 ? 0 : kAtomBytes - beyond));
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
// 16 x 16 of 16 bits, laid over a warp as the operand of a product, to shared memory: lanes 0 to 15 give the rows' left
// 8, the others their right 8, each on 16 bytes. All lanes call.
__device__ inline void store_matrices(void* row, const std::uint32_t (&values)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
                 : "memory");
}
constexpr std::size_t kMostSharedBytes = 232'448;  // that a block of sm_90 may have

// One block to a multiprocessor, `items` of them.
template <class Shared, class Operands>
void launch_blocks(void (*kernel)(Operands), std::int64_t items, int threads, const Operands& op, const char* name,
                   cudaStream_t stream) {
    constexpr std::size_t kBytes = kSharedBytes<Shared>;
    static_assert(kBytes <= kMostSharedBytes);
    const cudaError_t room =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes));
    require_operand(room == cudaSuccess, name, "shared memory of a block in bytes", kBytes,
                    "what an sm_90 multiprocessor has");
    kernel<<<blocks_for(items, 1), threads, kBytes, stream>>>(op);
    check_launch(name);
}

}  // namespace oomb::kernels::cuda::hopper
