#include "kernels/cuda/convert.hpp"

#include <algorithm>

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/element.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;

// By way of a float rounded to odd: an inexact one never lies on a tie of the second rounding.
__device__ inline BFloat16 narrow_double(double value) {
    const float toward_zero = __double2float_rz(value);
    const unsigned inexact = static_cast<double>(toward_zero) != value ? 1 : 0;
    return narrow<BFloat16>(__uint_as_float(__float_as_uint(toward_zero) | inexact));
}

template <class To, class From>
__device__ To converted(From value) {
    if constexpr (std::is_same_v<From, double> && std::is_same_v<To, BFloat16>) {
        return narrow_double(value);
    } else {
        return narrow<To>(static_cast<Accumulator<To>>(widen(value)));
    }
}

template <class From, class To, int N>
__global__ void __launch_bounds__(kBlock) convert_kernel(const From* from, To* to, const std::int64_t count) {
    const std::int64_t first = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
    if (first + N <= count) {
        const auto pack = load_wide<N>(from + first);
        Pack<To, N> result;
        for (int j = 0; j < N; ++j) {
            result.e[j] = converted<To>(pack.e[j]);
        }
        store_wide(to + first, result);
        return;
    }
    for (std::int64_t i = first; i < count; ++i) {
        to[i] = converted<To>(from[i]);
    }
}

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // of threads

// A block turns a square of [rows, columns] into one of [columns, rows].
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernel(const T* in, T* out, const std::int64_t rows, const std::int64_t columns) {
    __shared__ T tile[kTile][kTile + 1];  // a further column, so that a column does not lie in one bank
    const std::int64_t first_row = std::int64_t{blockIdx.x} * kTile, first_column = std::int64_t{blockIdx.y} * kTile;
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
        const std::int64_t row = first_row + i, column = first_column + threadIdx.x;
        if (row < rows && column < columns) {
            tile[i][threadIdx.x] = in[row * columns + column];
        }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
        const std::int64_t row = first_row + threadIdx.x, column = first_column + i;
        if (row < rows && column < columns) {
            out[column * rows + row] = tile[threadIdx.x][i];
        }
    }
}

template <class T>
void transpose(const T* in, T* out, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
    constexpr std::int64_t kMostColumns = 65'535 * kTile;
    require_operand(columns <= kMostColumns, "transpose", "the length of a row", columns, "2097120 at most");
    if (rows == 0 || columns == 0) {
        return;
    }
    const dim3 blocks(blocks_for(rows, kTile), blocks_for(columns, kTile));
    transpose_kernel<<<blocks, dim3(kTile, kTileRows), 0, stream>>>(in, out, rows, columns);
    check_launch("transpose");
}

constexpr int kSumWarps = kBlock / kWarp;
constexpr std::int64_t kRowBlocks = 64;  // at most; fixed, so that sums are

std::int64_t rows_per_block(std::int64_t count) {
    return std::max<std::int64_t>(kSumWarps, (count + kRowBlocks - 1) / kRowBlocks);
}

// A warp has 32 packs of columns of every 8th row of the block's rows; the sums of warps are added in order.
template <class T, int N>
__global__ void __launch_bounds__(kBlock)
    column_sums_kernel(const T* rows, const std::int64_t count, const std::int64_t width, const std::int64_t own_rows,
                       Accumulator<T>* partials) {
    using A = Accumulator<T>;
    __shared__ A all[kSumWarps][N][kWarp];
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + lane) * N;
    const std::int64_t first = blockIdx.y * own_rows;
    const std::int64_t end = first + own_rows < count ? first + own_rows : count;
    Pack<A, N> sum{};
    if (column < width) {
#pragma unroll 4
        for (std::int64_t row = first + warp; row < end; row += kSumWarps) {
            const auto pack = load_pack<N>(rows + row * width + column);
            for (int j = 0; j < N; ++j) {
                sum.e[j] += widen(pack.e[j]);
            }
        }
    }
    for (int j = 0; j < N; ++j) {
        all[warp][j][lane] = sum.e[j];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < N * kWarp; i += kBlock) {
        const std::int64_t own_column = std::int64_t{blockIdx.x} * kWarp * N + i;
        A total = 0;
        for (int w = 0; w < kSumWarps; ++w) {
            total += all[w][i % N][i / N];
        }
        if (own_column < width) {
            partials[blockIdx.y * width + own_column] = total;
        }
    }
}

// SplitMix64: the output function, and the step from one state to the next.
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
__host__ __device__ constexpr std::uint64_t mixed(std::uint64_t state) {
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
    return state ^ (state >> 31);
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock)
    normal_kernel(T* values, const std::int64_t count, const float standard_deviation, const std::uint64_t start) {
    const std::int64_t first = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
    Pack<T, N> pack;
    for (int j = 0; j < N; ++j) {
        const std::uint64_t draw = mixed(start + static_cast<std::uint64_t>(first + j + 1) * kStep);
        const float radius_draw = static_cast<float>((draw >> 40) + 1) * 0x1p-24F;  // (0, 1]
        const float turn = static_cast<float>(draw & 0xffffff) * 0x1p-24F;          // [0, 1)
        pack.e[j] = narrow<T>(standard_deviation * sqrtf(-2 * logf(radius_draw)) * cospif(2 * turn));
    }
    if (first + N <= count) {
        store_pack(values + first, pack);
        return;
    }
    for (int j = 0; first + j < count; ++j) {
        values[first + j] = pack.e[j];
    }
}

}  // namespace

template <class From, class To>
void convert(const From* from, To* to, std::int64_t count, cudaStream_t stream) {
    if (count == 0) {
        return;
    }
    constexpr int kPack = std::max(kPackSize<From>, kPackSize<To>);
    if (aligned_for_packs(from, to)) {
        convert_kernel<From, To, kPack><<<blocks_for(count, kBlock * kPack), kBlock, 0, stream>>>(from, to, count);
    } else {
        convert_kernel<From, To, 1><<<blocks_for(count, kBlock), kBlock, 0, stream>>>(from, to, count);
    }
    check_launch("convert");
}

template <class T>
void heads_first(const T* in, T* out, std::int64_t rows, std::int64_t heads, cudaStream_t stream) {
    transpose(in, out, rows, heads, stream);
}

template <class T>
void tokens_first(const T* in, T* out, std::int64_t rows, std::int64_t heads, cudaStream_t stream) {
    transpose(in, out, heads, rows, stream);
}

template <class T>
std::size_t column_sums_workspace_bytes(std::int64_t count, std::int64_t width) {
    const std::int64_t each = rows_per_block(count);
    return static_cast<std::size_t>((count + each - 1) / each * width) * sizeof(Accumulator<T>);
}

template <class T>
void add_column_sums(const T* rows, std::int64_t count, std::int64_t width, Accumulator<T>* sums, void* workspace,
                     cudaStream_t stream) {
    using A = Accumulator<T>;
    if (count == 0 || width == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    auto* partials = static_cast<A*>(workspace);
    const std::int64_t each = rows_per_block(count);
    const unsigned blocks = blocks_for(count, each);
    if (width % kPack == 0 && aligned_for_packs(rows)) {
        column_sums_kernel<T, kPack>
            <<<dim3(blocks_for(width, kWarp * kPack), blocks), kBlock, 0, stream>>>(rows, count, width, each, partials);
    } else {
        column_sums_kernel<T, 1>
            <<<dim3(blocks_for(width, kWarp), blocks), kBlock, 0, stream>>>(rows, count, width, each, partials);
    }
    check_launch("add_column_sums");
    add_partial_sums(ColumnSumsList<A, 1>{{{partials, sums, std::int64_t{blocks}, width, width}}},
                     "add_column_sums, sum of groups", stream);
}

template <class T>
void fill_normal(T* values, std::int64_t count, double standard_deviation, std::uint64_t seed, cudaStream_t stream,
                 std::int64_t first) {
    if (count == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    const auto deviation = static_cast<float>(standard_deviation);
    // Mixed, or seeds that differ by kStep would give shifted values.
    const std::uint64_t start = mixed(seed + kStep) + static_cast<std::uint64_t>(first) * kStep;
    if (aligned_for_packs(values)) {
        normal_kernel<T, kPack>
            <<<blocks_for(count, kBlock * kPack), kBlock, 0, stream>>>(values, count, deviation, start);
    } else {
        normal_kernel<T, 1><<<blocks_for(count, kBlock), kBlock, 0, stream>>>(values, count, deviation, start);
    }
    check_launch("fill_normal");
}

template void convert(const double*, float*, std::int64_t, cudaStream_t);
template void convert(const double*, BFloat16*, std::int64_t, cudaStream_t);
template void convert(const float*, double*, std::int64_t, cudaStream_t);
template void convert(const float*, BFloat16*, std::int64_t, cudaStream_t);
template void convert(const BFloat16*, double*, std::int64_t, cudaStream_t);
template void convert(const BFloat16*, float*, std::int64_t, cudaStream_t);

#define OOMB_INSTANTIATE(T)                                                          \
    template std::size_t column_sums_workspace_bytes<T>(std::int64_t, std::int64_t); \
    template void add_column_sums(const T*, std::int64_t, std::int64_t, Accumulator<T>*, void*, cudaStream_t);
OOMB_INSTANTIATE(double)
OOMB_INSTANTIATE(float)
OOMB_INSTANTIATE(BFloat16)
#undef OOMB_INSTANTIATE

template void heads_first(const float*, float*, std::int64_t, std::int64_t, cudaStream_t);
template void heads_first(const double*, double*, std::int64_t, std::int64_t, cudaStream_t);
template void tokens_first(const float*, float*, std::int64_t, std::int64_t, cudaStream_t);
template void tokens_first(const double*, double*, std::int64_t, std::int64_t, cudaStream_t);
template void fill_normal(float*, std::int64_t, double, std::uint64_t, cudaStream_t, std::int64_t);
template void fill_normal(BFloat16*, std::int64_t, double, std::uint64_t, cudaStream_t, std::int64_t);

}  // namespace oomb::kernels::cuda
