#include "kernels/cuda/hopper/tensor_map.hpp"

#include <cuda_runtime_api.h>

#include <type_traits>

#include "kernels/cuda/hopper/layout.hpp"
#include "kernels/cuda/launch.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cuda::hopper {
namespace {

// The driver's function, asked for by way of the runtime: nothing links the driver itself.
decltype(&cuTensorMapEncodeTiled) encoder() {
    static const auto kFunction = [] {
        constexpr unsigned kVersion = 12000;  // the first CUDA that has it
        void* function = nullptr;
        cudaDriverEntryPointQueryResult found{};
        const cudaError_t error =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion, cudaEnableDefault, &found);
        if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
            fail<Error>("the CUDA driver has no cuTensorMapEncodeTiled ({}): it must be of CUDA 12.0 or newer",
                        cudaGetErrorString(error));
        }
        return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
    }();
    return kFunction;
}

// Sizes are in elements, innermost first; each dimension but the last is followed by the next one without a gap in
// `strides_bytes`, which are given since a ragged page is shorter than its frame.
template <class T, int kRank>
CUtensorMap tiled_map(const T* data, const cuuint64_t (&sizes)[kRank], const cuuint64_t (&strides_bytes)[kRank - 1],
                      const cuuint32_t (&box)[kRank]) {
    constexpr CUtensorMapDataType kType =
        std::is_same_v<T, float> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    cuuint32_t steps[kRank];
    for (cuuint32_t& step : steps) {
        step = 1;
    }
    // A row of 256 bytes comes in two boxes: the first brings both to L2.
    const auto promotion =
        sizes[0] * sizeof(T) >= 256 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    CUtensorMap map{};
    const CUresult result = encoder()(&map, kType, kRank, const_cast<T*>(data), sizes, strides_bytes, box, steps,
                                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion,
                                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    require(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled refused a map of {} rows of {} elements: CUresult {}",
            sizes[kRank - 1], sizes[0], static_cast<int>(result));
    return map;
}

CUtensorMap page_map(const BFloat16* slab, const paging::PageView<const BFloat16>& kv, std::int64_t page_rows) {
    constexpr std::uint64_t kAnySlab_bytes = std::uint64_t{1} << 40;  // nobody tells how many frames there are
    const auto head_dim = static_cast<cuuint64_t>(kv.head_dim);
    const auto heads = static_cast<cuuint64_t>(kv.kv_heads);
    const cuuint64_t row_bytes = heads * head_dim * sizeof(BFloat16);
    const cuuint64_t frame_bytes = row_bytes * static_cast<cuuint64_t>(kv.page_tokens);
    return tiled_map<BFloat16, 4>(slab,
                                  {head_dim, heads, static_cast<cuuint64_t>(page_rows), kAnySlab_bytes / frame_bytes},
                                  {head_dim * sizeof(BFloat16), row_bytes, frame_bytes},
                                  {kBoxColumns, 1, static_cast<cuuint32_t>(kv.page_tokens), 1});
}

}  // namespace

template <class T>
CUtensorMap rows_map(const T* data, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, int box_rows) {
    const auto head_bytes = static_cast<cuuint64_t>(head_dim) * sizeof(T);
    const auto all_heads = static_cast<cuuint64_t>(heads);
    return tiled_map<T, 3>(data, {static_cast<cuuint64_t>(head_dim), all_heads, static_cast<cuuint64_t>(tokens)},
                           {head_bytes, head_bytes * all_heads},
                           {kRowBytes / sizeof(T), 1, static_cast<cuuint32_t>(box_rows)});
}
template CUtensorMap rows_map(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, int);
template CUtensorMap rows_map(const float*, std::int64_t, std::int64_t, std::int64_t, int);

PageMaps page_maps(const paging::PageView<const BFloat16>& kv) {
    const std::int64_t last_rows = (kv.tokens - 1) % kv.page_tokens + 1;
    return {page_map(kv.k_slab, kv, kv.page_tokens), page_map(kv.v_slab, kv, kv.page_tokens),
            page_map(kv.k_slab, kv, last_rows), page_map(kv.v_slab, kv, last_rows)};
}

}  // namespace oomb::kernels::cuda::hopper
