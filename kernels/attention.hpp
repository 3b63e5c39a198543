#pragma once
// Operands of attention over one window of K/V pages, and of the merge of windows.
//
// A history longer than memory is read window by window. Forward over a window gives a normalised partial output and
// the log-sum-exp of its scores; merging all windows gives exactly the softmax over all keys:
//     lse = logaddexp(lse_1, lse_2),  O = exp(lse_1 - lse) O_1 + exp(lse_2 - lse) O_2.
// Backward over a window takes the *global* lse and delta, so dK and dV of the window need no other window and dQ adds
// up over windows. All logarithms are natural; lse and every partial are in Accumulator<T>.
//
// Buffers are dense and row-major; `tokens` counts queries. Query head h reads KV head h / (query_heads / kv_heads).

#include <algorithm>
#include <cstdint>

#include "kernels/element.hpp"
#include "runtime/paging/page_view.hpp"

namespace oomb::kernels {

// Which keys a query sees: positions [begin(i), end(i)), absolute, for query i of the call.
struct AttentionMask {
    std::int64_t first_query = 0;                   // absolute position of query 0; query i is at first_query + i
    std::int64_t sliding_window = 0;                // 0: all earlier keys; w > 0: the query itself and w - 1 before it
    std::int64_t document_start = 0;                // no key before this position is seen
    const std::int64_t* document_starts = nullptr;  // [tokens], per query; replaces document_start if given

    constexpr std::int64_t end(std::int64_t query) const { return first_query + query + 1; }
    constexpr std::int64_t begin(std::int64_t query) const {
        const std::int64_t document = document_starts != nullptr ? document_starts[query] : document_start;
        return sliding_window > 0 ? std::max(document, end(query) - sliding_window) : document;
    }
};

// A query that sees no key of the window gets o_part = 0 and lse_part = -inf.
template <class T>
struct AttentionForward {
    const T* q = nullptr;                // [tokens, query_heads, head_dim], after RoPE
    paging::PageView<const T> kv = {};   // the window
    Accumulator<T>* o_part = nullptr;    // out [tokens, query_heads, head_dim]
    Accumulator<T>* lse_part = nullptr;  // out [tokens, query_heads]
    std::int64_t tokens = 0;
    std::int64_t query_heads = 0;  // a multiple of kv.kv_heads
    double scale = 0;              // multiplies q.k, 1 / sqrt(head_dim)
    AttentionMask mask = {};
};

// P is T (a library's partial) or Accumulator<T> (ours).
// A part whose lse is -inf is not read and leaves the sum as it is; if both are -inf, O = 0 and lse = -inf.
// NaN in either lse or in a part that is read stays NaN.
template <class A, class P>
struct AttentionMerge {
    A* o = nullptr;               // in/out [tokens, heads, head_dim]
    A* lse = nullptr;             // in/out [tokens, heads]
    const P* o_part = nullptr;    // [tokens, heads, head_dim]
    const A* lse_part = nullptr;  // [tokens, heads]
    std::int64_t tokens = 0;
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;
    bool first = false;  // o and lse hold nothing yet: the part is written, not merged
};

// delta = rowsum(d_o * o), once per chunk and layer, before the windows of the backward pass.
template <class T>
struct AttentionDelta {
    const T* d_o = nullptr;           // [tokens, heads, head_dim]
    const T* o = nullptr;             // [tokens, heads, head_dim], the merged output
    Accumulator<T>* delta = nullptr;  // out [tokens, heads]
    std::int64_t tokens = 0;
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;
};

// With p = exp(scale q.k - lse) and ds = p (d_o.v - delta):
//     dq += scale ds k,   dk += scale ds q,   dv += p d_o.
// Sums run over keys (dq) or over heads of the group and queries (dk, dv) in ascending order, straight into the
// accumulators: the bits depend neither on threads nor, for ascending windows, on how the keys are cut into windows.
template <class T>
struct AttentionBackward {
    const T* q = nullptr;                        // [tokens, query_heads, head_dim]
    const T* d_o = nullptr;                      // [tokens, query_heads, head_dim]
    const Accumulator<T>* lse = nullptr;         // [tokens, query_heads], global; -inf: the query sees nothing at all
    const Accumulator<T>* delta = nullptr;       // [tokens, query_heads]
    paging::PageView<const T> kv = {};           // the window
    Accumulator<T>* dq = nullptr;                // in/out [tokens, query_heads, head_dim], accumulated
    paging::PageView<Accumulator<T>> d_kv = {};  // dk, dv: the same tokens and page size as kv, frames of its own
    // [pages of the window] or null: not 0 means that the page's gradient frame holds nothing yet, and every valid row
    // of it is written, with zeros where no query sees the key; otherwise, and if null, the frame is added to.
    const std::uint8_t* first_touch = nullptr;
    std::int64_t tokens = 0;
    std::int64_t query_heads = 0;
    double scale = 0;
    AttentionMask mask = {};
};

}  // namespace oomb::kernels
