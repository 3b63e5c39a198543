#include <limits>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/attention_rows.cuh"

namespace oomb::kernels::cuda {
namespace {

template <class A>
constexpr A kMinusInfinity = -std::numeric_limits<A>::infinity();

// A warp takes one (query, head); what has been summed is rescaled whenever the running maximum grows.
template <class T>
__global__ void __launch_bounds__(kAttentionBlock) forward_kernel(const AttentionForward<T> args) {
    using A = Accumulator<T>;
    const auto& kv = args.kv;
    const std::int64_t row = row_of_warp();
    if (row >= args.tokens * args.query_heads) {
        return;
    }
    const std::int64_t kv_head = row % args.query_heads / (args.query_heads / kv.kv_heads);
    const auto q = WarpRow<A>::read(args.q + row * kv.head_dim, kv.head_dim);
    auto o = WarpRow<A>::zeros();
    A largest = kMinusInfinity<A>;
    A total = 0;
    const KeyRange keys = visible_keys(args.mask, kv, row / args.query_heads);
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
        const std::int64_t offset = row_offset(kv, key, kv_head);
        const A score = A(args.scale) * q.dot(WarpRow<A>::read(kv.k_slab + offset, kv.head_dim));
        if (score > largest) {
            const A rescale = exp(largest - score);
            total *= rescale;
            o.scale(rescale);
            largest = score;
        }
        // No finite score so far: nothing to subtract, or -inf - -inf would turn a zero weight into NaN.
        const A weight = exp(score - (largest == kMinusInfinity<A> ? A(0) : largest));
        total += weight;
        o.add_scaled(weight, WarpRow<A>::read(kv.v_slab + offset, kv.head_dim));
    }
    const bool any = total != A(0);
    o.scale(any ? 1 / total : A(0));
    o.write(args.o_part + row * kv.head_dim, kv.head_dim);
    if (threadIdx.x % kWarp == 0) {
        args.lse_part[row] = any ? largest + log(total) : kMinusInfinity<A>;
    }
}

// A warp takes one row of o.
template <class A, class P, int N>
__global__ void __launch_bounds__(kAttentionBlock) merge_kernel(const AttentionMerge<A, P> args) {
    const std::int64_t row = row_of_warp();
    if (row >= args.tokens * args.heads) {
        return;
    }
    const A lse_part = args.lse_part[row];
    const A lse = args.first ? kMinusInfinity<A> : args.lse[row];
    __syncwarp();  // all lanes have read lse
    const bool take_part = lse_part != kMinusInfinity<A>;
    const bool keep_sum = lse != kMinusInfinity<A>;
    if (!take_part && !args.first) {
        return;
    }
    const A larger = lse > lse_part ? lse : lse_part;
    const bool both = take_part && keep_sum;
    const A merged = both ? larger + log1p(exp(-fabs(lse - lse_part))) : take_part ? lse_part : lse;
    const A sum_weight = both ? exp(lse - merged) : A(0);
    const A part_weight = both ? exp(lse_part - merged) : A(1);
    for (std::int64_t i = (threadIdx.x % kWarp) * N; i < args.head_dim; i += kWarp * N) {
        const std::int64_t place = row * args.head_dim + i;
        const auto part = take_part ? load_pack<N>(args.o_part + place) : Pack<P, N>{};
        auto o = both ? load_pack<N>(args.o + place) : Pack<A, N>{};
        for (int j = 0; j < N; ++j) {
            const A addend = part_weight * widen(part.e[j]);
            o.e[j] = both ? sum_weight * o.e[j] + addend : addend;
        }
        store_pack(args.o + place, o);
    }
    if (threadIdx.x % kWarp == 0) {
        args.lse[row] = merged;
    }
}

// Half a warp takes a row: with head_dim 128 in bfloat16 every lane has a pack. Its warp sums together, so a half
// without a row takes part with no columns.
constexpr int kHalfWarp = 16;
template <class T, int N>
__global__ void __launch_bounds__(kAttentionBlock) delta_kernel(const AttentionDelta<T> args) {
    using A = Accumulator<T>;
    const std::int64_t row = (std::int64_t{blockIdx.x} * kAttentionBlock + threadIdx.x) / kHalfWarp;
    const bool has_row = row < args.tokens * args.heads;
    A sum = 0;
#pragma unroll 2
    for (std::int64_t i = (threadIdx.x % kHalfWarp) * N; has_row && i < args.head_dim; i += kHalfWarp * N) {
        const auto d_o = load_pack<N>(args.d_o + row * args.head_dim + i);
        const auto o = load_pack<N>(args.o + row * args.head_dim + i);
        for (int j = 0; j < N; ++j) {
            sum += widen(d_o.e[j]) * widen(o.e[j]);
        }
    }
    sum = sum_over<kHalfWarp>(sum);
    if (has_row && threadIdx.x % kHalfWarp == 0) {
        args.delta[row] = sum;
    }
}

}  // namespace

template <class T>
void attention_forward(const AttentionForward<T>& args, cudaStream_t stream) {
    constexpr const char* kName = "attention_forward";
    require_operand(args.kv.kv_heads > 0 && args.query_heads % args.kv.kv_heads == 0, kName, "query_heads",
                    args.query_heads, "a multiple of the KV heads");
    require_operand(args.kv.head_dim <= kMostHeadDim, kName, "head_dim", args.kv.head_dim, "256 at most");
    if (args.tokens == 0) {
        return;
    }
    const unsigned blocks = blocks_for(args.tokens * args.query_heads, kAttentionWarps);
    forward_kernel<<<blocks, kAttentionBlock, 0, stream>>>(args);
    check_launch(kName);
}

template <class A, class P>
void attention_merge(const AttentionMerge<A, P>& args, cudaStream_t stream) {
    if (args.tokens == 0) {
        return;
    }
    constexpr int kPack = kPackSize<A>;
    const unsigned blocks = blocks_for(args.tokens * args.heads, kAttentionWarps);
    if (args.head_dim % kPack == 0 && aligned_for_packs(args.o, args.o_part)) {
        merge_kernel<A, P, kPack><<<blocks, kAttentionBlock, 0, stream>>>(args);
    } else {
        merge_kernel<A, P, 1><<<blocks, kAttentionBlock, 0, stream>>>(args);
    }
    check_launch("attention_merge");
}

template <class T>
void attention_delta(const AttentionDelta<T>& args, cudaStream_t stream) {
    if (args.tokens == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    const unsigned blocks = blocks_for(args.tokens * args.heads, kAttentionBlock / kHalfWarp);
    if (args.head_dim % kPack == 0 && aligned_for_packs(args.d_o, args.o)) {
        delta_kernel<T, kPack><<<blocks, kAttentionBlock, 0, stream>>>(args);
    } else {
        delta_kernel<T, 1><<<blocks, kAttentionBlock, 0, stream>>>(args);
    }
    check_launch("attention_delta");
}

template void attention_forward(const AttentionForward<double>&, cudaStream_t);
template void attention_forward(const AttentionForward<float>&, cudaStream_t);
template void attention_forward(const AttentionForward<BFloat16>&, cudaStream_t);
template void attention_merge(const AttentionMerge<double, double>&, cudaStream_t);
template void attention_merge(const AttentionMerge<float, float>&, cudaStream_t);
template void attention_merge(const AttentionMerge<float, BFloat16>&, cudaStream_t);
template void attention_delta(const AttentionDelta<double>&, cudaStream_t);
template void attention_delta(const AttentionDelta<float>&, cudaStream_t);
template void attention_delta(const AttentionDelta<BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
