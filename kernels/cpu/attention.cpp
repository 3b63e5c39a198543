#include "kernels/cpu/attention.hpp"

#include <cmath>
#include <limits>

#include "kernels/cpu/attention_keys.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/parallel.hpp"

namespace oomb::kernels::cpu {
namespace {

template <class A>
constexpr A kMinusInfinity = -std::numeric_limits<A>::infinity();

// Softmax over the visible keys in blocks, rescaling what has been summed whenever the running maximum grows; a block
// of scores lives on the stack, so a window of any length needs no memory.
template <class T>
void attend_row(const AttentionForward<T>& args, std::int64_t query, std::int64_t head) {
    using A = Accumulator<T>;
    constexpr std::int64_t kBlock = 128;
    const auto& kv = args.kv;
    const std::int64_t dim = kv.head_dim;
    const std::int64_t kv_head = head / (args.query_heads / kv.kv_heads);
    const std::int64_t row = query * args.query_heads + head;
    const T* q = args.q + row * dim;
    A* o = args.o_part + row * dim;
    std::fill(o, o + dim, A(0));
    A largest = kMinusInfinity<A>;
    A total = 0;
    const KeyRange keys = visible_keys(args.mask, kv, query);
    for (std::int64_t first = keys.begin; first < keys.end; first += kBlock) {
        const std::int64_t count = std::min(kBlock, keys.end - first);
        A weights[kBlock];
        A grown = largest;
        for (std::int64_t i = 0; i < count; ++i) {
            weights[i] = A(args.scale) * dot<A>(q, kv.k_row(first + i, kv_head), dim);
            grown = weights[i] > grown ? weights[i] : grown;
        }
        // All scores so far -inf: nothing to subtract, or -inf - -inf would turn zero weights into NaN.
        const A shift = grown == kMinusInfinity<A> ? A(0) : grown;
        const A rescale = exponential(largest - shift);
        for (std::int64_t i = 0; i < count; ++i) {
            weights[i] = exponential(weights[i] - shift);
        }
        total = total * rescale + sum_in_lanes<A>(count, [&](std::int64_t i) { return weights[i]; });
        scale_row(o, rescale, dim);
        for (std::int64_t i = 0; i < count; ++i) {
            add_scaled(o, weights[i], kv.v_row(first + i, kv_head), dim);
        }
        largest = grown;
    }
    const bool any = total != A(0);
    scale_row(o, any ? 1 / total : A(0), dim);
    args.lse_part[row] = any ? largest + std::log(total) : kMinusInfinity<A>;
}

template <class A, class P>
void merge_row(const AttentionMerge<A, P>& args, std::int64_t row) {
    A* o = args.o + row * args.head_dim;
    const P* part = args.o_part + row * args.head_dim;
    const A lse_part = args.lse_part[row];
    const A lse = args.first ? kMinusInfinity<A> : args.lse[row];
    if (args.first) {
        std::fill(o, o + args.head_dim, A(0));
        args.lse[row] = lse;
    }
    if (lse_part == kMinusInfinity<A>) {
        return;
    }
    if (lse == kMinusInfinity<A>) {
        for (std::int64_t i = 0; i < args.head_dim; ++i) {
            o[i] = static_cast<A>(part[i]);
        }
        args.lse[row] = lse_part;
        return;
    }
    const A larger = lse > lse_part ? lse : lse_part;
    const A merged = larger + std::log1p(std::exp(-std::abs(lse - lse_part)));
    scale_row(o, std::exp(lse - merged), args.head_dim);
    add_scaled(o, std::exp(lse_part - merged), part, args.head_dim);
    args.lse[row] = merged;
}

}  // namespace

template <class T>
void attention_forward(const AttentionForward<T>& args) {
    require_heads(args.query_heads, args.kv.kv_heads);
    parallel_rows(args.tokens * args.query_heads,
                  [&](std::int64_t row) { attend_row(args, row / args.query_heads, row % args.query_heads); });
}

template <class A, class P>
void attention_merge(const AttentionMerge<A, P>& args) {
    parallel_rows(args.tokens * args.heads, [&](std::int64_t row) { merge_row(args, row); });
}

template void attention_forward(const AttentionForward<double>&);
template void attention_forward(const AttentionForward<float>&);
template void attention_forward(const AttentionForward<BFloat16>&);
template void attention_merge(const AttentionMerge<double, double>&);
template void attention_merge(const AttentionMerge<float, float>&);
template void attention_merge(const AttentionMerge<float, BFloat16>&);

}  // namespace oomb::kernels::cpu
