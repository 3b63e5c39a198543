#include "runtime/device/hbm_arena.hpp"

#include <cuda_runtime_api.h>

#include "runtime/core/units.hpp"
#include "runtime/device/check.hpp"

namespace oomb::device {

namespace {

[[noreturn]] void refuse(std::int64_t bytes) {
    cudaGetLastError();
    std::size_t free_bytes = 0, total_bytes = 0;
    OOMB_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    fail<DoesNotFitError>(
        "GPU memory: the run reserves {}, free are {} of {}, the rest is held by the driver and other processes: stop "
        "those, or lower --gpu-memory or --context",
        format_bytes(bytes), format_bytes(static_cast<std::int64_t>(free_bytes)),
        format_bytes(static_cast<std::int64_t>(total_bytes)));
}

}  // namespace

std::string ArenaView::describe() const {
    return fmt::format("{}: {} at {}", name, format_bytes(bytes), fmt::ptr(base));
}

void HbmArena::Free::operator()(std::byte* memory) const {
    cudaFree(memory);
}

HbmArena::HbmArena(std::int64_t bytes) {
    require(bytes > 0, "HBM arena of {} bytes", bytes);
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
        refuse(bytes);
    }
    check(status, "cudaMalloc");
    memory_.reset(static_cast<std::byte*>(memory));
    view_ = {"HBM arena", memory_.get(), bytes, 0};
}

}  // namespace oomb::device
