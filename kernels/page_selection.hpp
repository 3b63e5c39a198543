#pragma once
// Operands of choosing the history pages that a page of queries attends to. docs/topk.md says where each is used.
//
// With m[k, h] the mean of the keys of page k, after RoPE, under KV head h, and g(h) the query heads of its group:
//     score(i, k) = sum over tokens t of query page i and KV heads h of
//                   softmax over k of (scale * (sum of q[t, g] for g in g(h)) . m[k, h]).
// Products and sums run in Accumulator<T>. Buffers are dense and row-major.

#include <cmath>
#include <cstdint>

#include "kernels/element.hpp"
#include "runtime/core/page_recall.hpp"
#include "runtime/paging/page_view.hpp"

namespace oomb::kernels {

inline double page_score_scale(std::int64_t head_dim) {
    return 1.0 / std::sqrt(static_cast<double>(head_dim));
}

// Means of whole pages, rounded once. Rows in ascending order, so the bits depend on the page alone.
template <class T>
struct PageMeans {
    paging::PageView<const T> kv = {};  // tokens: a multiple of page_tokens; only K is read
    T* means = nullptr;                 // out [pages of the view, kv_heads, head_dim]
};

template <class T>
struct PageScores {
    const T* q = nullptr;              // [tokens, query_heads, head_dim], after RoPE
    const T* means = nullptr;          // [pages, kv_heads, head_dim]
    Accumulator<T>* scores = nullptr;  // out [ceil(tokens / page_tokens), pages]
    std::int64_t tokens = 0;           // the last query page may be ragged
    std::int64_t page_tokens = 0;
    std::int64_t pages = 0;
    std::int64_t query_heads = 0;  // a multiple of kv_heads
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    double scale = 0;
};

// The `count` pages of the highest scores of each row, ascending by page; of equal scores the lower page. A NaN counts
// as lower than any number.
template <class A>
struct SelectPages {
    const A* scores = nullptr;      // [rows, pages]
    std::int32_t* lists = nullptr;  // out [rows, count]
    std::int64_t rows = 0;
    std::int64_t pages = 0;
    std::int64_t count = 0;  // at most pages
};

// Lists the other way about: page p is named by the lists of rows readers[offsets[p]] to readers[offsets[p + 1] - 1],
// ascending.
struct ListInversion {
    const std::int32_t* lists = nullptr;  // [rows, count], each ascending, of numbers below `pages`
    std::int32_t* offsets = nullptr;      // out [pages + 1]
    std::int32_t* readers = nullptr;      // out [rows * count]
    std::int64_t rows = 0;
    std::int64_t count = 0;
    std::int64_t pages = 0;
};

// How much attention the pages of a window get: for query page i and page k
//     mass(i, k) = sum over tokens t of query page i, query heads g and keys j of page k of
//                  exp(scale * q[t, g] . k[j, h(g)] - lse[t, g]).
template <class T>
struct PageMass {
    const T* q = nullptr;                 // [tokens, query_heads, head_dim], after RoPE
    const Accumulator<T>* lse = nullptr;  // [tokens, query_heads], over all keys that the queries see
    paging::PageView<const T> kv = {};    // whole pages, all before the queries; only K is read
    Accumulator<T>* mass = nullptr;       // out [ceil(tokens / page_tokens), pages], the columns of the window's pages
    std::int64_t tokens = 0;              // the last query page may be ragged
    std::int64_t pages = 0;
    std::int64_t query_heads = 0;  // a multiple of kv.kv_heads
    double scale = 0;
};

constexpr std::int64_t kMostRecallBudgets = 16;

// Adds what the pages of the highest scores (as in SelectPages), of the most mass, and the latest ones cover, for each
// budget below `pages`. Sums are float64, in an order that the operands fix.
template <class A>
struct PageRecall {
    const A* scores = nullptr;              // [rows, pages]
    const A* mass = nullptr;                // [rows, pages]
    const std::int64_t* budgets = nullptr;  // [count], ascending; host memory for any device
    RecallSums* sums = nullptr;             // in/out [count]
    std::int64_t count = 0;
    std::int64_t tokens = 0, page_tokens = 0;  // rows = ceil(tokens / page_tokens)
    std::int64_t pages = 0;
    std::int64_t query_heads = 0;
};

}  // namespace oomb::kernels
