#include <algorithm>

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rms_norm.hpp"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kHalfWarp = 16;
constexpr std::int64_t kHalfWarpWidth = 128;  // up to this width half a warp takes a row, ...
constexpr std::int64_t kWarpWidth = 512;      // ... up to this one a warp, above it a block
constexpr std::int64_t kMostRowBlocks = 528;  // 4 per multiprocessor of an H200; fixed, so that sums are
constexpr std::int64_t kMostSharedBytes = 200 * 1024;
constexpr int kPlainSharedBytes = 48 * 1024;  // more needs an attribute
constexpr int kBatch = 2;                     // packs that a thread has in flight

template <class A>
__device__ A inverse_root(A squares, std::int64_t width, double eps) {
    return 1 / sqrt(squares / A(width) + A(eps));
}

template <int N, int Threads>
__device__ std::int64_t first_column() {
    return (threadIdx.x % Threads) * N;
}

// Rows are read twice, the second time from L1. A group without a row takes part with no columns: its warp sums
// together.
template <class T, int N, int Threads>
__global__ void __launch_bounds__(kBlock) forward_kernel(const RmsNormForward<T> args) {
    using A = Accumulator<T>;
    const std::int64_t row = std::int64_t{blockIdx.x} * (kBlock / Threads) + threadIdx.x / Threads;
    const std::int64_t columns = row < args.rows ? args.width : 0;
    const T* x = args.x + row * args.width;
    T* y = args.y + row * args.width;
    A squares = 0;
#pragma unroll 2
    for (std::int64_t i = first_column<N, Threads>(); i < columns; i += Threads * N) {
        const auto pack = load_pack<N>(x + i);
        for (int j = 0; j < N; ++j) {
            squares += widen(pack.e[j]) * widen(pack.e[j]);
        }
    }
    const A r = inverse_root(sum_over<Threads>(squares), args.width, args.eps);
#pragma unroll 2
    for (std::int64_t i = first_column<N, Threads>(); i < columns; i += Threads * N) {
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

// Two sums that travel together, for one pair of barriers.
template <class A>
struct Sums {
    A squares;
    A projection;
};
template <class A>
__device__ Sums<A> exchange(const Sums<A>& value, int distance) {
    return {cuda::exchange(value.squares, distance), cuda::exchange(value.projection, distance)};
}
struct PlusBoth {
    template <class A>
    __device__ Sums<A> operator()(const Sums<A>& left, const Sums<A>& right) const {
        return {left.squares + right.squares, left.projection + right.projection};
    }
};

// All loads of a batch are under way before the first is used, and those of dx, which only the second pass needs, too.
template <class T, int N, int Threads>
__device__ RowMoments<T> row_moments(const RmsNormBackward<T>& args, std::int64_t row, std::int64_t columns) {
    using A = Accumulator<T>;
    const std::int64_t start = row * args.width;
    Sums<A> sums{};
    for (std::int64_t i = first_column<N, Threads>(); i < columns; i += kBatch * Threads * N) {
        Pack<T, N> x[kBatch], dy[kBatch];
        for (int u = 0; u < kBatch; ++u) {
            const std::int64_t at = i + u * Threads * N;
            if (at < columns) {
                x[u] = load_pack<N>(args.x + start + at);
                dy[u] = load_pack<N>(args.dy + start + at);
                if (args.add_to_dx) {
                    prefetch(args.dx + start + at);
                }
            }
        }
        for (int u = 0; u < kBatch; ++u) {
            const std::int64_t at = i + u * Threads * N;
            if (at < columns) {
                const auto weight = load_pack<N>(args.weight + at);
                for (int j = 0; j < N; ++j) {
                    const A value = widen(x[u].e[j]);
                    sums.squares += value * value;
                    sums.projection += widen(weight.e[j]) * widen(dy[u].e[j]) * value;
                }
            }
        }
    }
    sums = combine_over<Threads>(sums, Sums<A>{}, PlusBoth{});
    const A r = inverse_root(sums.squares, args.width, args.eps);
    return {r, r * r * r / A(args.width) * sums.projection};
}

// Where the sum of a column lies: lanes that hold neighbouring packs must not meet in a bank.
template <int N>
__device__ std::int64_t slot_of(std::int64_t column, std::int64_t width) {
    return column % N * (width / N) + column / N;
}

// dx of one row; its share of d_weight is added to `sums`, of which every thread owns the columns that it reads.
template <class T, int N, int Threads>
__device__ void backward_row(const RmsNormBackward<T>& args, std::int64_t row, std::int64_t columns,
                             Accumulator<T>* sums) {
    using A = Accumulator<T>;
    const auto moments = row_moments<T, N, Threads>(args, row, columns);
#pragma unroll 2
    for (std::int64_t i = first_column<N, Threads>(); i < columns; i += Threads * N) {
        const std::int64_t at = row * args.width + i;
        const auto x = load_pack<N>(args.x + at);
        const auto weight = load_pack<N>(args.weight + i);
        const auto before = args.add_to_dx ? load_pack<N>(args.dx + at) : Pack<T, N>{};
        auto pack = load_pack<N>(args.dy + at);
        for (int j = 0; j < N; ++j) {
            const A value = widen(x.e[j]);
            const A gradient = widen(pack.e[j]);
            sums[slot_of<N>(i, args.width) + j * (args.width / N)] += gradient * value * moments.r;
            const A result = moments.r * widen(weight.e[j]) * gradient - value * moments.pull;
            pack.e[j] = narrow<T>(args.add_to_dx ? widen(before.e[j]) + result : result);
        }
        store_pack(args.dx + at, pack);
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
    for (std::int64_t base = first; base < end; base += kGroups) {
        const std::int64_t row = base + group;
        backward_row<T, N, Threads>(args, row, row < end ? args.width : 0, all_sums + group * args.width);
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < args.width; i += kBlock) {
        A sum = 0;
        for (int g = 0; g < kGroups; ++g) {
            sum += all_sums[g * args.width + slot_of<N>(i, args.width)];
        }
        partials[blockIdx.x * args.width + i] = sum;
    }
}

std::int64_t row_blocks(std::int64_t rows, std::int64_t width) {
    const std::int64_t threads = width <= kHalfWarpWidth ? kHalfWarp : width <= kWarpWidth ? kWarp : kBlock;
    const std::int64_t rows_at_once = kBlock / threads;
    return std::min(kMostRowBlocks, (rows + rows_at_once - 1) / rows_at_once);
}

template <class T, int N>
void launch_forward(const RmsNormForward<T>& args, cudaStream_t stream) {
    if (args.width <= kHalfWarpWidth) {
        forward_kernel<T, N, kHalfWarp><<<blocks_for(args.rows, kBlock / kHalfWarp), kBlock, 0, stream>>>(args);
    } else if (args.width <= kWarpWidth) {
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
    add_partial_sums(ColumnSumsList<A, 1>{{{partials, args.d_weight, std::int64_t{blocks}, args.width, args.width}}},
                     "rms_norm_backward, sum of d_weight", stream);
}

template <class T, int N>
void launch_backward_by_width(const RmsNormBackward<T>& args, Accumulator<T>* partials, cudaStream_t stream) {
    if (args.width <= kHalfWarpWidth) {
        launch_backward<T, N, kHalfWarp>(args, partials, stream);
    } else if (args.width <= kWarpWidth) {
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
