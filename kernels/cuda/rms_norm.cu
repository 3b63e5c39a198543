#include <algorithm>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rms_norm.hpp"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kWarpWidth = 512;      // up to this width a warp takes a row, above it a block
constexpr std::int64_t kMostRowBlocks = 528;  // 4 per multiprocessor of an H200; fixed, so that sums are
constexpr std::int64_t kMostSharedBytes = 200 * 1024;
constexpr int kPlainSharedBytes = 48 * 1024;  // more needs an attribute

template <class A>
__device__ A inverse_root(A squares, std::int64_t width, double eps) {
    return 1 / sqrt(squares / A(width) + A(eps));
}

// Rows are read twice, the second time from L1.
template <class T, int N, int Threads>
__global__ void __launch_bounds__(kBlock) forward_kernel(const RmsNormForward<T> args) {
    using A = Accumulator<T>;
    const int lane = threadIdx.x % Threads;
    const std::int64_t row = std::int64_t{blockIdx.x} * (kBlock / Threads) + threadIdx.x / Threads;
    if (row >= args.rows) {
        return;
    }
    const T* x = args.x + row * args.width;
    T* y = args.y + row * args.width;
    A squares = 0;
    for (std::int64_t i = lane * N; i < args.width; i += Threads * N) {
        const auto pack = load_pack<N>(x + i);
        for (int j = 0; j < N; ++j) {
            squares += widen(pack.e[j]) * widen(pack.e[j]);
        }
    }
    const A r = inverse_root(sum_over<Threads>(squares), args.width, args.eps);
    for (std::int64_t i = lane * N; i < args.width; i += Threads * N) {
        auto pack = load_pack<N>(x + i);
        const auto weight = load_pack<N>(args.weight + i);
        for (int j = 0; j < N; ++j) {
            pack.e[j] = narrow<T>(widen(weight.e[j]) * widen(pack.e[j]) * r);
        }
        store_pack(y + i, pack);
    }
}

template <class T>
struct RowMoments {
    Accumulator<T> r;
    Accumulator<T> pull;  // r^3 / width * sum(weight dy x)
};

template <class T, int N, int Threads>
__device__ RowMoments<T> row_moments(const RmsNormBackward<T>& args, const T* x, const T* dy) {
    using A = Accumulator<T>;
    A squares = 0;
    A projection = 0;
    for (std::int64_t i = (threadIdx.x % Threads) * N; i < args.width; i += Threads * N) {
        const auto x_pack = load_pack<N>(x + i);
        const auto dy_pack = load_pack<N>(dy + i);
        const auto weight = load_pack<N>(args.weight + i);
        for (int j = 0; j < N; ++j) {
            const A value = widen(x_pack.e[j]);
            squares += value * value;
            projection += widen(weight.e[j]) * widen(dy_pack.e[j]) * value;
        }
    }
    const A r = inverse_root(sum_over<Threads>(squares), args.width, args.eps);
    return {r, r * r * r / A(args.width) * sum_over<Threads>(projection)};
}

// dx of one row; its share of d_weight is added to `sums`, of which every thread owns the columns that it reads.
template <class T, int N, int Threads>
__device__ void backward_row(const RmsNormBackward<T>& args, std::int64_t row, Accumulator<T>* sums) {
    using A = Accumulator<T>;
    const T* x = args.x + row * args.width;
    const T* dy = args.dy + row * args.width;
    T* dx = args.dx + row * args.width;
    const auto moments = row_moments<T, N, Threads>(args, x, dy);
    for (std::int64_t i = (threadIdx.x % Threads) * N; i < args.width; i += Threads * N) {
        const auto x_pack = load_pack<N>(x + i);
        const auto weight = load_pack<N>(args.weight + i);
        auto pack = load_pack<N>(dy + i);
        const auto before = args.add_to_dx ? load_pack<N>(dx + i) : Pack<T, N>{};
        for (int j = 0; j < N; ++j) {
            const A value = widen(x_pack.e[j]);
            const A gradient = widen(pack.e[j]);
            sums[i + j] += gradient * value * moments.r;
            const A result = moments.r * widen(weight.e[j]) * gradient - value * moments.pull;
            pack.e[j] = narrow<T>(args.add_to_dx ? widen(before.e[j]) + result : result);
        }
        store_pack(dx + i, pack);
    }
}

// Block b takes rows [b * rows_per_block, (b + 1) * rows_per_block) and writes row b of `partials` [blocks, width].
template <class T, int N, int Threads>
__global__ void __launch_bounds__(kBlock)
    backward_kernel(const RmsNormBackward<T> args, Accumulator<T>* partials, std::int64_t rows_per_block) {
    using A = Accumulator<T>;
    constexpr int kGroups = kBlock / Threads;
    extern __shared__ double shared[];
    A* all_sums = reinterpret_cast<A*>(shared);  // [kGroups, width]
    for (std::int64_t i = threadIdx.x; i < kGroups * args.width; i += kBlock) {
        all_sums[i] = 0;
    }
    __syncthreads();
    const int group = threadIdx.x / Threads;
    const std::int64_t first = blockIdx.x * rows_per_block;
    const std::int64_t end = first + rows_per_block < args.rows ? first + rows_per_block : args.rows;
    for (std::int64_t row = first + group; row < end; row += kGroups) {
        backward_row<T, N, Threads>(args, row, all_sums + group * args.width);
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < args.width; i += kBlock) {
        A sum = 0;
        for (int g = 0; g < kGroups; ++g) {
            sum += all_sums[g * args.width + i];
        }
        partials[blockIdx.x * args.width + i] = sum;
    }
}

// A block sums 32 columns: 16 threads a column take every 16th partial, then their sums are added in order.
constexpr int kSlices = 16;
template <class A>
__global__ void __launch_bounds__(kWarp* kSlices)
    sum_partials_kernel(const A* partials, A* d_weight, int blocks, std::int64_t width) {
    __shared__ A sums[kSlices][kWarp];
    const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
    A sum = 0;
    if (column < width) {
#pragma unroll 8
        for (int block = threadIdx.y; block < blocks; block += kSlices) {
            sum += partials[block * width + column];
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        A total = d_weight[column];
        for (int slice = 0; slice < kSlices; ++slice) {
            total += sums[slice][threadIdx.x];
        }
        d_weight[column] = total;
    }
}

std::int64_t row_blocks(std::int64_t rows, std::int64_t width) {
    const std::int64_t rows_at_once = width <= kWarpWidth ? kBlock / kWarp : 1;
    return std::min(kMostRowBlocks, (rows + rows_at_once - 1) / rows_at_once);
}

template <class T, int N>
void launch_forward(const RmsNormForward<T>& args, cudaStream_t stream) {
    if (args.width <= kWarpWidth) {
        forward_kernel<T, N, kWarp><<<blocks_for(args.rows, kBlock / kWarp), kBlock, 0, stream>>>(args);
    } else {
        forward_kernel<T, N, kBlock><<<blocks_for(args.rows, 1), kBlock, 0, stream>>>(args);
    }
    check_launch("rms_norm_forward");
}

template <class T, int N, int Threads>
void launch_backward(const RmsNormBackward<T>& args, Accumulator<T>* partials, cudaStream_t stream) {
    using A = Accumulator<T>;
    const std::int64_t limit = row_blocks(args.rows, args.width);
    const std::int64_t rows_per_block = (args.rows + limit - 1) / limit;
    const unsigned blocks = blocks_for(args.rows, rows_per_block);
    const int shared_bytes = static_cast<int>(kBlock / Threads * args.width * std::int64_t{sizeof(A)});
    if (shared_bytes > kPlainSharedBytes) {
        cudaFuncSetAttribute(backward_kernel<T, N, Threads>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    }
    backward_kernel<T, N, Threads><<<blocks, kBlock, shared_bytes, stream>>>(args, partials, rows_per_block);
    check_launch("rms_norm_backward");
    sum_partials_kernel<A><<<blocks_for(args.width, kWarp), dim3(kWarp, kSlices), 0, stream>>>(
        partials, args.d_weight, static_cast<int>(blocks), args.width);
    check_launch("rms_norm_backward, sum of d_weight");
}

template <class T, int N>
void launch_backward_by_width(const RmsNormBackward<T>& args, Accumulator<T>* partials, cudaStream_t stream) {
    if (args.width <= kWarpWidth) {
        launch_backward<T, N, kWarp>(args, partials, stream);
    } else {
        launch_backward<T, N, kBlock>(args, partials, stream);
    }
}

}  // namespace

template <class T>
void rms_norm_forward(const RmsNormForward<T>& args, cudaStream_t stream) {
    if (args.rows == 0) {
        return;
    }
    if (args.width % kPackSize<T> == 0 && aligned_for_packs(args.x, args.weight, args.y)) {
        launch_forward<T, kPackSize<T>>(args, stream);
    } else {
        launch_forward<T, 1>(args, stream);
    }
}

template <class T>
std::size_t rms_norm_backward_workspace_bytes(std::int64_t rows, std::int64_t width) {
    return static_cast<std::size_t>(row_blocks(rows, width) * width) * sizeof(Accumulator<T>);
}

template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args, void* workspace, cudaStream_t stream) {
    using A = Accumulator<T>;
    require_operand(args.width * std::int64_t{sizeof(A)} <= kMostSharedBytes, "rms_norm_backward", "width", args.width,
                    "200 KiB of accumulators at most");
    if (args.rows == 0) {
        return;
    }
    auto* partials = static_cast<A*>(workspace);
    if (args.width % kPackSize<T> == 0 && aligned_for_packs(args.x, args.dy, args.weight, args.dx)) {
        launch_backward_by_width<T, kPackSize<T>>(args, partials, stream);
    } else {
        launch_backward_by_width<T, 1>(args, partials, stream);
    }
}

#define OOMB_INSTANTIATE(T)                                                                \
    template void rms_norm_forward(const RmsNormForward<T>&, cudaStream_t);                \
    template std::size_t rms_norm_backward_workspace_bytes<T>(std::int64_t, std::int64_t); \
    template void rms_norm_backward(const RmsNormBackward<T>&, void*, cudaStream_t);
OOMB_INSTANTIATE(double)
OOMB_INSTANTIATE(float)
OOMB_INSTANTIATE(BFloat16)
#undef OOMB_INSTANTIATE

}  // namespace oomb::kernels::cuda
