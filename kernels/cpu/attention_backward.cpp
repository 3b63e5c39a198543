#include <cmath>

#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/attention_keys.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/parallel.hpp"

namespace oomb::kernels::cpu {
namespace {

template <class A>
struct PairGradient {
    A p;          // softmax weight of the key
    A ds_scaled;  // gradient of q.k
};

template <class T>
PairGradient<Accumulator<T>> pair_gradient(const AttentionBackward<T>& args, std::int64_t row, const T* k, const T* v) {
    using A = Accumulator<T>;
    const std::int64_t dim = args.kv.head_dim;
    const A score = A(args.scale) * dot<A>(args.q + row * dim, k, dim);
    const A p = exponential(score - args.lse[row]);
    return {p, A(args.scale) * p * (dot<A>(args.d_o + row * dim, v, dim) - args.delta[row])};
}

// A query that sees nothing at all has lse = -inf; exp(score - lse) would be infinite for keys of other queries' masks.
template <class T>
bool sees_nothing(const AttentionBackward<T>& args, std::int64_t row) {
    return std::isinf(args.lse[row]) && args.lse[row] < 0;
}

template <class T>
void query_gradient(const AttentionBackward<T>& args, std::int64_t query, std::int64_t head) {
    const auto& kv = args.kv;
    const std::int64_t kv_head = head / (args.query_heads / kv.kv_heads);
    const std::int64_t row = query * args.query_heads + head;
    if (sees_nothing(args, row)) {
        return;
    }
    const KeyRange keys = visible_keys(args.mask, kv, query);
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
        const T* k = kv.k_row(key, kv_head);
        const auto gradient = pair_gradient(args, row, k, kv.v_row(key, kv_head));
        add_scaled(args.dq + row * kv.head_dim, gradient.ds_scaled, k, kv.head_dim);
    }
}

// All that one query head adds to the dK and dV rows of page rows [begin, end).
template <class T>
void add_query_to_page(const AttentionBackward<T>& args, std::int64_t begin, std::int64_t end, std::int64_t query,
                       std::int64_t head) {
    const auto& kv = args.kv;
    const std::int64_t kv_head = head / (args.query_heads / kv.kv_heads);
    const std::int64_t row = query * args.query_heads + head;
    if (sees_nothing(args, row)) {
        return;
    }
    const KeyRange keys = visible_keys(args.mask, kv, query);
    for (std::int64_t key = std::max(begin, keys.begin); key < std::min(end, keys.end); ++key) {
        const auto gradient = pair_gradient(args, row, kv.k_row(key, kv_head), kv.v_row(key, kv_head));
        add_scaled(args.d_kv.k_row(key, kv_head), gradient.ds_scaled, args.q + row * kv.head_dim, kv.head_dim);
        add_scaled(args.d_kv.v_row(key, kv_head), gradient.p, args.d_o + row * kv.head_dim, kv.head_dim);
    }
}

// One (page, KV head) belongs to one thread: no two write the same row, so no atomics and one order of sums.
template <class T>
void page_gradient(const AttentionBackward<T>& args, std::int64_t page, std::int64_t kv_head) {
    const auto& d_kv = args.d_kv;
    const std::int64_t begin = page * d_kv.page_tokens;
    const std::int64_t end = std::min(begin + d_kv.page_tokens, d_kv.tokens);
    if (args.first_touch != nullptr && args.first_touch[page] != 0) {
        for (std::int64_t key = begin; key < end; ++key) {
            std::fill_n(d_kv.k_row(key, kv_head), d_kv.head_dim, Accumulator<T>(0));
            std::fill_n(d_kv.v_row(key, kv_head), d_kv.head_dim, Accumulator<T>(0));
        }
    }
    const std::int64_t group = args.query_heads / d_kv.kv_heads;
    for (std::int64_t query = 0; query < args.tokens; ++query) {
        for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            add_query_to_page(args, begin, end, query, head);
        }
    }
}

template <class T>
void require_same_window(const paging::PageView<const T>& kv, const paging::PageView<Accumulator<T>>& d_kv) {
    require(
        kv.page_tokens == d_kv.page_tokens && kv.kv_heads == d_kv.kv_heads && kv.head_dim == d_kv.head_dim &&
            kv.first_token == d_kv.first_token && kv.tokens == d_kv.tokens,
        "attention backward: gradient window [{} tokens from {}, pages of {}] is not the K/V window [{} from {}, {}]",
        d_kv.tokens, d_kv.first_token, d_kv.page_tokens, kv.tokens, kv.first_token, kv.page_tokens);
}

}  // namespace

template <class T>
void attention_delta(const AttentionDelta<T>& args) {
    parallel_rows(args.tokens * args.heads, [&](std::int64_t row) {
        const std::int64_t offset = row * args.head_dim;
        args.delta[row] = dot<Accumulator<T>>(args.d_o + offset, args.o + offset, args.head_dim);
    });
}

template <class T>
void attention_backward(const AttentionBackward<T>& args) {
    require_heads(args.query_heads, args.kv.kv_heads);
    require_same_window<T>(args.kv, args.d_kv);
    if (args.kv.tokens == 0) {
        return;
    }
    const std::int64_t pages = blocks_of(args.kv.tokens, args.kv.page_tokens);
    parallel_rows(pages * args.kv.kv_heads,
                  [&](std::int64_t index) { page_gradient(args, index / args.kv.kv_heads, index % args.kv.kv_heads); });
    parallel_rows(args.tokens * args.query_heads,
                  [&](std::int64_t row) { query_gradient(args, row / args.query_heads, row % args.query_heads); });
}

template void attention_delta(const AttentionDelta<double>&);
template void attention_delta(const AttentionDelta<float>&);
template void attention_delta(const AttentionDelta<BFloat16>&);
template void attention_backward(const AttentionBackward<double>&);
template void attention_backward(const AttentionBackward<float>&);
template void attention_backward(const AttentionBackward<BFloat16>&);

}  // namespace oomb::kernels::cpu
