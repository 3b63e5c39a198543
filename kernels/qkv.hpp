#pragma once
// Operands of the step between the product for queries, keys and values and the attention: bias, RMSNorm per head
// (Qwen3; formula in kernels/rms_norm.hpp), RoPE of queries and keys (kernels/rope.hpp), keys and values into pages.
// A row of `qkv` is [query_heads + 2 * kv_heads, head_dim]: queries, keys, values. Row i is at first_position + i.
// Arithmetic runs in Accumulator<T> and is rounded once, on the way out.

#include <cstdint>

#include "kernels/element.hpp"
#include "runtime/paging/page_view.hpp"

namespace oomb::kernels {

// Queries and keys asked for alone have the bits of those asked for together.
template <class T>
struct QkvForward {
    const T* qkv = nullptr;                    // [rows, query_heads + 2 kv_heads, head_dim], the product
    const T* q_bias = nullptr;                 // [query_heads, head_dim] or null: none
    const T* k_bias = nullptr;                 // [kv_heads, head_dim] or null
    const T* v_bias = nullptr;                 // [kv_heads, head_dim] or null
    const T* q_norm = nullptr;                 // [head_dim], weight of the queries' norm, or null: none
    const T* k_norm = nullptr;                 // [head_dim] or null
    const float* inverse_frequency = nullptr;  // [head_dim / 2]
    double attention_factor = 1.0;             // of sines and cosines (YaRN)
    T* query = nullptr;                        // out [rows, query_heads, head_dim] or null: not asked for
    paging::PageView<T> kv = {};               // out, rows of first_position on; tokens = rows, or 0: not asked for
    std::int64_t rows = 0;
    std::int64_t query_heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;  // even
    std::int64_t first_position = 0;
    double eps = 0;
};

// From the gradients of rotated queries, rotated keys and values to the gradient of the product, in its place.
template <class T>
struct QkvBackward {
    T* qkv = nullptr;           // in: the product, read only where there is a norm; out: gradient
    const T* q_bias = nullptr;  // as in QkvForward; read only where there is a norm
    const T* k_bias = nullptr;
    const T* v_bias = nullptr;  // never read
    const T* q_norm = nullptr;
    const T* k_norm = nullptr;
    const float* inverse_frequency = nullptr;  // [head_dim / 2]
    double attention_factor = 1.0;
    const Accumulator<T>* d_query = nullptr;           // [rows, query_heads, head_dim]
    paging::PageView<const Accumulator<T>> d_kv = {};  // tokens = rows
    Accumulator<T>* d_q_bias = nullptr;  // in/out, accumulated; shapes of the parameters; null: not asked for
    Accumulator<T>* d_k_bias = nullptr;
    Accumulator<T>* d_v_bias = nullptr;
    Accumulator<T>* d_q_norm = nullptr;  // only with q_norm
    Accumulator<T>* d_k_norm = nullptr;  // only with k_norm
    std::int64_t rows = 0;
    std::int64_t query_heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;  // even
    std::int64_t first_position = 0;
    double eps = 0;
};

}  // namespace oomb::kernels
