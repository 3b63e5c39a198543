#pragma once
// Maps by which the copy engine finds tiles in global memory. Made on the host, about a microsecond each; they hold
// addresses, so they live no longer than the buffers. Boxes are 128 bytes wide, written with the 128-byte swizzle of
// layout.hpp. Addresses must lie on 16 bytes.

#include <cuda.h>

#include <cstdint>

#include "kernels/element.hpp"
#include "runtime/paging/page_view.hpp"

namespace oomb::kernels::cuda::hopper {

// [tokens, heads, head_dim], in boxes of `box_rows` (256 at most) rows of one head. T is BFloat16 or float. Rows from
// `tokens` on are read as zero and not written.
template <class T>
CUtensorMap rows_map(const T* data, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, int box_rows);

// K and V of a window, [frames, page_tokens, kv_heads, head_dim], in boxes of one page of one head. The last page may
// be ragged: in the maps made for it the rows that hold nothing are read as zero, whatever lies there. Frames lie
// within 2^40 bytes of the slab's start.
struct PageMaps {
    CUtensorMap k, v;
    CUtensorMap last_k, last_v;
};
PageMaps page_maps(const paging::PageView<const BFloat16>& kv);

}  // namespace oomb::kernels::cuda::hopper
