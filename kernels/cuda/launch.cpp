#include "kernels/cuda/launch.hpp"

#include "runtime/core/error.hpp"

namespace oomb::kernels::cuda {

void check_launch(const char* kernel) {
    const cudaError_t error = cudaGetLastError();
    // A kernel's code is loaded at its first launch, which takes memory.
    if (error == cudaErrorMemoryAllocation) {
        fail<DoesNotFitError>(
            "GPU memory: none is left to load kernel {}: end other processes on the GPU, or lower --gpu-memory or "
            "--context",
            kernel);
    }
    if (error != cudaSuccess) {
        fail<Error>("CUDA kernel {} was not launched: {} ({})", kernel, cudaGetErrorString(error),
                    cudaGetErrorName(error));
    }
}

void require_operand(bool holds, const char* kernel, const char* what, std::int64_t found, const char* allowed) {
    require(holds, "{}: {} is {}, but must be {}", kernel, what, found, allowed);
}

unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
    constexpr std::int64_t kMostBlocks = 0x7fffffff;
    const std::int64_t blocks = (items + per_block - 1) / per_block;
    require(blocks > 0 && blocks <= kMostBlocks, "a grid of {} blocks, but CUDA takes 1 to {}", blocks, kMostBlocks);
    return static_cast<unsigned>(blocks);
}

}  // namespace oomb::kernels::cuda
