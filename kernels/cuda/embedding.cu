#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kScanned = 8;      // rows that a thread looks at between two barriers
constexpr int kColumnPacks = 4;  // of a thread in backward, so that few blocks look for the same token
constexpr int kWords = kScanned * kBlock / 64;
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

// Bit b: token first + b is `token`, of those in [begin, end). Eight tokens in two accesses where they lie on 16 bytes.
__device__ unsigned matches_of(const std::int32_t* tokens, std::int64_t first, std::int64_t begin, std::int64_t end,
                               std::int32_t token) {
    unsigned found = 0;
    if (first >= begin && first + kScanned <= end && reinterpret_cast<std::uintptr_t>(tokens + first) % 16 == 0) {
        const auto pack = load_wide<kScanned>(tokens + first);
        for (int b = 0; b < kScanned; ++b) {
            found |= pack.e[b] == token ? 1U << b : 0U;
        }
        return found;
    }
    for (int b = 0; b < kScanned; ++b) {
        const std::int64_t at = first + b;
        found |= at >= begin && at < end && tokens[at] == token ? 1U << b : 0U;
    }
    return found;
}

// Whether a row before `row` has the same token; the whole block calls.
__device__ bool seen_before(const std::int32_t* tokens, std::int64_t row, std::int32_t token) {
    for (std::int64_t first = 0; first < row; first += kScanned * kBlock) {
        const unsigned found = matches_of(tokens, first + threadIdx.x * kScanned, 0, row, token);
        if (__syncthreads_or(found != 0)) {
            return true;
        }
    }
    return false;
}

// The block of a token's first row sums all its rows, in ascending order; a thread has kColumnPacks packs of columns.
template <int N, class T, class G>
__global__ void __launch_bounds__(kBlock) backward_kernel(const EmbeddingBackward<T, G> args) {
    using A = Accumulator<T>;
    __shared__ std::uint64_t matches[kWords];  // bit b of word w: row first + 64 w + b has the token
    const std::int64_t row = blockIdx.x;
    const std::int32_t token = args.tokens[row];
    if (token < 0 || token >= args.vocab || seen_before(args.tokens, row, token)) {
        return;
    }
    const auto column = [](int u) {
        return ((std::int64_t{blockIdx.y} * kColumnPacks + u) * kBlock + threadIdx.x) * N;
    };
    G* d_table = args.d_table + token * args.width;
    Pack<A, N> sums[kColumnPacks] = {};
    for (int u = 0; u < kColumnPacks; ++u) {
        if (column(u) < args.width) {
            const auto stored = load_pack<N>(d_table + column(u));
            for (int j = 0; j < N; ++j) {
                sums[u].e[j] = widen(stored.e[j]);
            }
        }
    }
    for (std::int64_t first = row / kScanned * kScanned; first < args.rows; first += kScanned * kBlock) {
        const unsigned found = matches_of(args.tokens, first + threadIdx.x * kScanned, row, args.rows, token);
        if (!__syncthreads_or(found != 0)) {
            continue;
        }
        reinterpret_cast<std::uint8_t*>(matches)[threadIdx.x] = static_cast<std::uint8_t>(found);
        __syncthreads();
        for (int word = 0; word < kWords; ++word) {
            for (std::uint64_t rest = matches[word]; rest != 0; rest &= rest - 1) {
                const std::int64_t match = first + word * 64 + __ffsll(static_cast<long long>(rest)) - 1;
                for (int u = 0; u < kColumnPacks; ++u) {
                    if (column(u) < args.width) {
                        const auto dy = load_pack<N>(args.dy + match * args.width + column(u));
                        for (int j = 0; j < N; ++j) {
                            sums[u].e[j] += widen(dy.e[j]);
                        }
                    }
                }
            }
        }
        __syncthreads();  // the matches have been used
    }
    for (int u = 0; u < kColumnPacks; ++u) {
        if (column(u) < args.width) {
            Pack<G, N> rounded;
            for (int j = 0; j < N; ++j) {
                rounded.e[j] = narrow<G>(sums[u].e[j]);
            }
            store_pack(d_table + column(u), rounded);
        }
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

template <class T, class G>
void embedding_backward(const EmbeddingBackward<T, G>& args, cudaStream_t stream) {
    constexpr int kPack = kPackSize<Accumulator<T>>;
    require_operand(args.width <= kMostColumnBlocks * kBlock * kColumnPacks, "embedding_backward", "width", args.width,
                    "67107840 at most");
    if (args.rows == 0 || args.width == 0) {
        return;
    }
    const unsigned rows = blocks_for(args.rows, 1);
    if (args.width % kPack == 0 && aligned_for_packs(args.dy, args.d_table)) {
        backward_kernel<kPack>
            <<<dim3(rows, blocks_for(args.width, kColumnPacks * kBlock * kPack)), kBlock, 0, stream>>>(args);
    } else {
        backward_kernel<1><<<dim3(rows, blocks_for(args.width, kColumnPacks * kBlock)), kBlock, 0, stream>>>(args);
    }
    check_launch("embedding_backward");
}

template void embedding_forward(const EmbeddingForward<double>&, cudaStream_t);
template void embedding_forward(const EmbeddingForward<float>&, cudaStream_t);
template void embedding_forward(const EmbeddingForward<BFloat16>&, cudaStream_t);
template void embedding_backward(const EmbeddingBackward<double>&, cudaStream_t);
template void embedding_backward(const EmbeddingBackward<float>&, cudaStream_t);
template void embedding_backward(const EmbeddingBackward<BFloat16>&, cudaStream_t);
template void embedding_backward(const EmbeddingBackward<BFloat16, BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
