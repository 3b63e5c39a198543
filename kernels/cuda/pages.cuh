#pragma once
// Rows of pages in device code: PageView's own functions are the host's.

#include <cstdint>

#include "runtime/paging/page_view.hpp"

namespace oomb::kernels::cuda {

// Element at which the row of (token, KV head) starts, from the slab's start. Divides in 32 bits, which is a fifth of
// the work: no view has 2^32 tokens.
template <class T>
__device__ inline std::int64_t row_offset(const paging::PageView<T>& view, std::int64_t token, std::int64_t kv_head) {
    const auto page = static_cast<std::uint32_t>(token) / static_cast<std::uint32_t>(view.page_tokens);
    const auto in_page = static_cast<std::uint32_t>(token) - page * static_cast<std::uint32_t>(view.page_tokens);
    const std::int64_t row = view.frames[page] * view.page_tokens + in_page;
    return (row * view.kv_heads + kv_head) * view.head_dim;
}

}  // namespace oomb::kernels::cuda
