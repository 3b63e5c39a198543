#include <limits>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/attention_rows.cuh"

namespace oomb::kernels::cuda {
namespace {

// A query that sees nothing at all has lse = -inf; exp(score - lse) would be infinite for keys of other queries' masks.
template <class A>
__device__ bool sees_nothing(A lse) {
    return lse == -std::numeric_limits<A>::infinity();
}

// The operands of one query head; q and d_o are read where they are needed.
template <class T>
struct QueryRow {
    using A = Accumulator<T>;
    WarpRow<A> q, d_o;
    A lse, delta;

    __device__ QueryRow(const AttentionBackward<T>& args, std::int64_t row)
        : q(WarpRow<A>::read(args.q + row * args.kv.head_dim, args.kv.head_dim)),
          d_o(WarpRow<A>::read(args.d_o + row * args.kv.head_dim, args.kv.head_dim)),
          lse(args.lse[row]),
          delta(args.delta[row]) {}
    __device__ A weight(const WarpRow<A>& k, double scale) const { return exp(A(scale) * q.dot(k) - lse); }
    __device__ A score_gradient(A p, const WarpRow<A>& v, double scale) const {
        return A(scale) * p * (d_o.dot(v) - delta);
    }
};

// A warp takes one (query, head) and walks over the keys.
template <class T>
__global__ void __launch_bounds__(kAttentionBlock) query_kernel(const AttentionBackward<T> args) {
    using A = Accumulator<T>;
    const auto& kv = args.kv;
    const std::int64_t row = row_of_warp();
    if (row >= args.tokens * args.query_heads || sees_nothing(args.lse[row])) {
        return;
    }
    const std::int64_t kv_head = row % args.query_heads / (args.query_heads / kv.kv_heads);
    const QueryRow<T> query(args, row);
    A* dq_row = args.dq + row * kv.head_dim;
    auto dq = WarpRow<A>::read(dq_row, kv.head_dim);
    const KeyRange keys = visible_keys(args.mask, kv, row / args.query_heads);
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
        const std::int64_t offset = row_offset(kv, key, kv_head);
        const auto k = WarpRow<A>::read(kv.k_slab + offset, kv.head_dim);
        const auto v = WarpRow<A>::read(kv.v_slab + offset, kv.head_dim);
        dq.add_scaled(query.score_gradient(query.weight(k, args.scale), v, args.scale), k);
    }
    dq.write(dq_row, kv.head_dim);
}

// A warp takes one (key, KV head) and walks over queries and, inside, the heads of the group.
template <class T>
__global__ void __launch_bounds__(kAttentionBlock) key_kernel(const AttentionBackward<T> args) {
    using A = Accumulator<T>;
    const auto& kv = args.kv;
    if (row_of_warp() >= kv.tokens * kv.kv_heads) {
        return;
    }
    const std::int64_t key = row_of_warp() / kv.kv_heads;
    const std::int64_t kv_head = row_of_warp() % kv.kv_heads;
    const std::int64_t group = args.query_heads / kv.kv_heads;
    const std::int64_t offset = row_offset(kv, key, kv_head);
    const auto k = WarpRow<A>::read(kv.k_slab + offset, kv.head_dim);
    const auto v = WarpRow<A>::read(kv.v_slab + offset, kv.head_dim);
    const std::int64_t d_offset = row_offset(args.d_kv, key, kv_head);
    A* dk_row = args.d_kv.k_slab + d_offset;
    A* dv_row = args.d_kv.v_slab + d_offset;
    const bool fresh = args.first_touch != nullptr && args.first_touch[key / kv.page_tokens] != 0;
    auto dk = fresh ? WarpRow<A>::zeros() : WarpRow<A>::read(dk_row, kv.head_dim);
    auto dv = fresh ? WarpRow<A>::zeros() : WarpRow<A>::read(dv_row, kv.head_dim);
    for (std::int64_t token = 0; token < args.tokens; ++token) {
        const KeyRange keys = visible_keys(args.mask, kv, token);
        if (key < keys.begin || key >= keys.end) {
            continue;
        }
        for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            const std::int64_t row = token * args.query_heads + head;
            if (sees_nothing(args.lse[row])) {
                continue;
            }
            const QueryRow<T> query(args, row);
            const A p = query.weight(k, args.scale);
            dk.add_scaled(query.score_gradient(p, v, args.scale), query.q);
            dv.add_scaled(p, query.d_o);
        }
    }
    dk.write(dk_row, kv.head_dim);
    dv.write(dv_row, kv.head_dim);
}

template <class T>
void require_operands(const AttentionBackward<T>& args, const char* kernel) {
    const auto& kv = args.kv;
    const auto& d_kv = args.d_kv;
    require_operand(kv.kv_heads > 0 && args.query_heads % kv.kv_heads == 0, kernel, "query_heads", args.query_heads,
                    "a multiple of the KV heads");
    require_operand(kv.head_dim <= kMostHeadDim, kernel, "head_dim", kv.head_dim, "256 at most");
    const char* same = "that of the K/V window";
    require_operand(kv.page_tokens == d_kv.page_tokens, kernel, "d_kv.page_tokens", d_kv.page_tokens, same);
    require_operand(kv.kv_heads == d_kv.kv_heads, kernel, "d_kv.kv_heads", d_kv.kv_heads, same);
    require_operand(kv.head_dim == d_kv.head_dim, kernel, "d_kv.head_dim", d_kv.head_dim, same);
    require_operand(kv.first_token == d_kv.first_token, kernel, "d_kv.first_token", d_kv.first_token, same);
    require_operand(kv.tokens == d_kv.tokens, kernel, "d_kv.tokens", d_kv.tokens, same);
}

}  // namespace

template <class T>
void attention_backward(const AttentionBackward<T>& args, cudaStream_t stream) {
    constexpr const char* kName = "attention_backward";
    require_operands(args, kName);
    if (args.kv.tokens == 0) {
        return;
    }
    const unsigned key_blocks = blocks_for(args.kv.tokens * args.kv.kv_heads, kAttentionWarps);
    key_kernel<<<key_blocks, kAttentionBlock, 0, stream>>>(args);
    check_launch(kName);
    if (args.tokens == 0) {
        return;
    }
    const unsigned query_blocks = blocks_for(args.tokens * args.query_heads, kAttentionWarps);
    query_kernel<<<query_blocks, kAttentionBlock, 0, stream>>>(args);
    check_launch(kName);
}

template void attention_backward(const AttentionBackward<double>&, cudaStream_t);
template void attention_backward(const AttentionBackward<float>&, cudaStream_t);
template void attention_backward(const AttentionBackward<BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
