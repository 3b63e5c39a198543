#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kScanned = 4;  // rows that a thread looks at between two barriers
constexpr int kWords = kScanned * kBlock / kWarp;
constexpr std::int64_t kMostColumnBlocks = 65'535;

template <class T, int N>
__global__ void __launch_bounds__(kBlock) forward_kernel(const EmbeddingForward<T> args) {
    const std::int64_t row = blockIdx.x;
    const std::int64_t token = args.tokens[row];
    const bool known = token >= 0 && token < args.vocab;
    Pack<T, N> unknown;
    for (int j = 0; j < N; ++j) {
        unknown.e[j] = narrow<T>(std::numeric_limits<Accumulator<T>>::quiet_NaN());
    }
    for (std::int64_t i = threadIdx.x * N; i < args.width; i += kBlock * N) {
        store_pack(args.y + row * args.width + i, known ? load_pack<N>(args.table + token * args.width + i) : unknown);
    }
}

// Whether a row before `row` has the same token; the whole block calls.
__device__ bool seen_before(const std::int32_t* tokens, std::int64_t row, std::int32_t token) {
    for (std::int64_t first = 0; first < row; first += kScanned * kBlock) {
        bool same = false;
        for (int u = 0; u < kScanned; ++u) {
            const std::int64_t other = first + u * kBlock + threadIdx.x;
            same |= other < row && tokens[other] == token;
        }
        if (__syncthreads_or(same)) {
            return true;
        }
    }
    return false;
}

// The block of a token's first row sums all its rows, in ascending order; a thread has N columns of it.
template <class T, int N>
__global__ void __launch_bounds__(kBlock) backward_kernel(const EmbeddingBackward<T> args) {
    using A = Accumulator<T>;
    __shared__ unsigned matches[kWords];  // bit b of word w: row first + 32 w + b has the token
    const std::int64_t row = blockIdx.x;
    const std::int32_t token = args.tokens[row];
    if (token < 0 || token >= args.vocab || seen_before(args.tokens, row, token)) {
        return;
    }
    const std::int64_t column = (std::int64_t{blockIdx.y} * kBlock + threadIdx.x) * N;
    const bool has_columns = column < args.width;
    A* d_table = args.d_table + token * args.width + column;
    Pack<A, N> sum = has_columns ? load_pack<N>(d_table) : Pack<A, N>{};
    for (std::int64_t first = row; first < args.rows; first += kScanned * kBlock) {
        unsigned found[kScanned];
        bool any = false;
        for (int u = 0; u < kScanned; ++u) {
            const std::int64_t other = first + u * kBlock + threadIdx.x;
            found[u] = __ballot_sync(kWholeWarp, other < args.rows && args.tokens[other] == token);
            any |= found[u] != 0;
        }
        if (!__syncthreads_or(any)) {
            continue;
        }
        for (int u = 0; threadIdx.x % kWarp == 0 && u < kScanned; ++u) {
            matches[u * (kBlock / kWarp) + threadIdx.x / kWarp] = found[u];
        }
        __syncthreads();
        for (int word = 0; has_columns && word < kWords; ++word) {
            for (unsigned rest = matches[word]; rest != 0; rest &= rest - 1) {
                const std::int64_t match = first + word * kWarp + __ffs(static_cast<int>(rest)) - 1;
                const auto dy = load_pack<N>(args.dy + match * args.width + column);
                for (int j = 0; j < N; ++j) {
                    sum.e[j] += widen(dy.e[j]);
                }
            }
        }
        __syncthreads();  // the matches have been used
    }
    if (has_columns) {
        store_pack(d_table, sum);
    }
}

}  // namespace

template <class T>
void embedding_forward(const EmbeddingForward<T>& args, cudaStream_t stream) {
    if (args.rows == 0 || args.width == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    if (args.width % kPack == 0 && aligned_for_packs(args.table, args.y)) {
        forward_kernel<T, kPack><<<blocks_for(args.rows, 1), kBlock, 0, stream>>>(args);
    } else {
        forward_kernel<T, 1><<<blocks_for(args.rows, 1), kBlock, 0, stream>>>(args);
    }
    check_launch("embedding_forward");
}

template <class T>
void embedding_backward(const EmbeddingBackward<T>& args, cudaStream_t stream) {
    constexpr int kPack = kPackSize<Accumulator<T>>;
    require_operand(args.width <= kMostColumnBlocks * kBlock, "embedding_backward", "width", args.width,
                    "16776960 at most");
    if (args.rows == 0 || args.width == 0) {
        return;
    }
    const unsigned rows = blocks_for(args.rows, 1);
    if (args.width % kPack == 0 && aligned_for_packs(args.dy, args.d_table)) {
        backward_kernel<T, kPack><<<dim3(rows, blocks_for(args.width, kBlock * kPack)), kBlock, 0, stream>>>(args);
    } else {
        backward_kernel<T, 1><<<dim3(rows, blocks_for(args.width, kBlock)), kBlock, 0, stream>>>(args);
    }
    check_launch("embedding_backward");
}

template void embedding_forward(const EmbeddingForward<double>&, cudaStream_t);
template void embedding_forward(const EmbeddingForward<float>&, cudaStream_t);
template void embedding_forward(const EmbeddingForward<BFloat16>&, cudaStream_t);
template void embedding_backward(const EmbeddingBackward<double>&, cudaStream_t);
template void embedding_backward(const EmbeddingBackward<float>&, cudaStream_t);
template void embedding_backward(const EmbeddingBackward<BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
