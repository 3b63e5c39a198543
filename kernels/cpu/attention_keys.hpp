#pragma once
// What forward and backward of the CPU attention share: the visible part of a window and rows of head_dim.

#include <algorithm>
#include <cstdint>

#include "kernels/attention.hpp"
#include "kernels/cpu/lanes.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {

// Rows of a window, [begin, end), counted from its first token; begin >= end for none.
struct KeyRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

template <class T>
KeyRange visible_keys(const AttentionMask& mask, const paging::PageView<T>& window, std::int64_t query) {
    return {std::max<std::int64_t>(0, mask.begin(query) - window.first_token),
            std::min(window.tokens, mask.end(query) - window.first_token)};
}

inline void require_heads(std::int64_t query_heads, std::int64_t kv_heads) {
    require(kv_heads > 0 && query_heads % kv_heads == 0, "attention: {} query heads are no multiple of {} KV heads",
            query_heads, kv_heads);
}

template <class A, class X, class Y>
A dot(const X* x, const Y* y, std::int64_t dim) {
    return sum_in_lanes<A>(dim, [=](std::int64_t i) { return static_cast<A>(x[i]) * static_cast<A>(y[i]); });
}

template <class A>
void scale_row(A* row, A factor, std::int64_t dim) {
    for (std::int64_t i = 0; i < dim; ++i) {
        row[i] *= factor;
    }
}

// sum += factor * row
template <class A, class T>
void add_scaled(A* sum, A factor, const T* row, std::int64_t dim) {
    for (std::int64_t i = 0; i < dim; ++i) {
        sum[i] += factor * static_cast<A>(row[i]);
    }
}

}  // namespace oomb::kernels::cpu
