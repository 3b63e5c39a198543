#pragma once
// Between pages and contiguous rows on a CUDA device, for libraries that read and write windows in one piece; see
// launch.hpp for what entry points promise.

#include <cstdint>

#include "kernels/cuda/launch.hpp"
#include "kernels/element.hpp"
#include "runtime/paging/page_view.hpp"

namespace oomb::kernels::cuda {

// k[i] = K row i of the window, v[i] = V row i. T is double, float or BFloat16.
template <class T>
struct PageGather {
    paging::PageView<const T> kv = {};  // the window; slabs and frames in device memory
    T* k = nullptr;                     // out [kv.tokens, kv_heads, head_dim]
    T* v = nullptr;                     // out [kv.tokens, kv_heads, head_dim]
};

template <class T>
void gather_pages(const PageGather<T>& args, cudaStream_t stream);

// Adds a library's gradients of a window to its gradient pages. T is the type of the library's rows.
template <class T>
struct GradientPagesAdd {
    const T* dk = nullptr;                       // [d_kv.tokens, kv_heads, head_dim]
    const T* dv = nullptr;                       // [d_kv.tokens, kv_heads, head_dim]
    paging::PageView<Accumulator<T>> d_kv = {};  // in/out
    // [pages] on the device or null: not 0 means that the page's frame holds nothing yet and is written, not added to.
    const std::uint8_t* first_touch = nullptr;
};

template <class T>
void add_to_gradient_pages(const GradientPagesAdd<T>& args, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
