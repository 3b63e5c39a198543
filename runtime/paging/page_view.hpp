#pragma once
// How a kernel sees pages: two slabs and a list of frames.

#include <cstdint>

namespace oomb::paging {

// K and V of consecutive tokens of one layer, page by page, in any physical order.
// A frame f of a slab is `[page_tokens, kv_heads, head_dim]`, row-major, at slab + f * page_tokens * kv_heads *
// head_dim. K is stored after RoPE. Page i of the view holds tokens [i * page_tokens, (i + 1) * page_tokens) counted
// from `first_token`; the last page may be ragged: only `tokens` rows in all are valid. The view owns nothing. T is
// `const` for attention forward; the gradient view of a backward pass has T = the accumulator type.
template <class T>
struct PageView {
    T* k_slab = nullptr;
    T* v_slab = nullptr;
    const std::int32_t* frames = nullptr;  // [ceil(tokens / page_tokens)]
    std::int64_t page_tokens = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t first_token = 0;  // absolute position of the first row
    std::int64_t tokens = 0;

    std::int64_t page_elements() const { return page_tokens * kv_heads * head_dim; }
    std::int64_t row_offset(std::int64_t token, std::int64_t kv_head) const {
        const std::int64_t page = token / page_tokens;
        return frames[page] * page_elements() + ((token % page_tokens) * kv_heads + kv_head) * head_dim;
    }
    T* k_row(std::int64_t token, std::int64_t kv_head) const { return k_slab + row_offset(token, kv_head); }
    T* v_row(std::int64_t token, std::int64_t kv_head) const { return v_slab + row_offset(token, kv_head); }
};

}  // namespace oomb::paging
