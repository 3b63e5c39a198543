// The few functions of the CUDA runtime and driver that the Hopper kernels' host code calls, where there is neither.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "kernels/cuda/attention.hpp"
#include "runtime/core/error.hpp"
#include "tests/kernels/emulation/tensor_map.hpp"

namespace oomb::emulation {
namespace {

// Refuses what the driver documents that it refuses, of what our maps could get wrong.
CUresult encode_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base, const cuuint64_t* sizes,
                    const cuuint64_t* strides_bytes, const cuuint32_t* box, const cuuint32_t* element_strides,
                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                    CUtensorMapFloatOOBfill fill) {
    TensorMap model{};
    const bool single = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    model.base = static_cast<std::uint8_t*>(base);
    model.element_bytes = single ? 4 : 2;
    bool legal = (single || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) && rank >= 3 && rank <= 4 &&
                 reinterpret_cast<std::uintptr_t>(base) % 16 == 0 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
                 swizzle == CU_TENSOR_MAP_SWIZZLE_128B && fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE &&
                 box[0] * model.element_bytes == 128;
    for (cuuint32_t i = 0; i < 4; ++i) {
        model.sizes[i] = i < rank ? static_cast<std::int64_t>(sizes[i]) : 1;
        model.box[i] = i < rank ? static_cast<std::int32_t>(box[i]) : 1;
        model.strides[i] = i == 0     ? model.element_bytes
                           : i < rank ? static_cast<std::int64_t>(strides_bytes[i - 1])
                                      : 0;
        legal = legal && model.sizes[i] > 0 && model.sizes[i] <= std::int64_t{1} << 32 && model.box[i] > 0 &&
                model.box[i] <= 256 && (i == 0 || model.strides[i] % 16 == 0) &&
                model.strides[i] < std::int64_t{1} << 40 && (i >= rank || element_strides[i] == 1);
    }
    std::memcpy(map, &model, sizeof(model));
    return legal ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace oomb::emulation

// NOLINTBEGIN: the names are CUDA's
extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
    *function = reinterpret_cast<void*>(&oomb::emulation::encode_map);
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
    return "an error of CUDA";
}
const char* cudaGetErrorName(cudaError_t) {
    return "error";
}
cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
    std::memset(to, value, bytes);
    return cudaSuccess;
}
}
// NOLINTEND

namespace oomb::kernels::cuda {

template <>
void attention_forward(const AttentionForward<BFloat16>&, cudaStream_t) {
    fail<InternalError>("the plain kernel is not emulated");
}
template <>
void attention_backward(const AttentionBackward<BFloat16>&, cudaStream_t) {
    fail<InternalError>("the plain kernel is not emulated");
}

}  // namespace oomb::kernels::cuda
