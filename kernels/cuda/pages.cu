#include "kernels/cuda/element.cuh"
#include "kernels/cuda/pages.cuh"
#include "kernels/cuda/pages.hpp"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kRows = 8;  // tokens of a block

// Calls fn(page, offset in the slab, offset in the contiguous rows) for every N elements of the block's tokens.
template <int N, class T, class Fn>
__device__ void for_packs(const paging::PageView<T>& view, const Fn& fn) {
    const std::int64_t first = std::int64_t{blockIdx.x} * kRows;
    const int tokens = static_cast<int>(view.tokens - first < kRows ? view.tokens - first : kRows);
    const int row_elements = static_cast<int>(view.kv_heads * view.head_dim);
    for (int at = threadIdx.x * N; at < tokens * row_elements; at += kBlock * N) {
        const std::int64_t token = first + at / row_elements;
        const int column = at % row_elements;
        fn(token / view.page_tokens, row_offset(view, token, 0) + column, token * row_elements + column);
    }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock) gather_kernel(const PageGather<T> args) {
    for_packs<N>(args.kv, [&](std::int64_t, std::int64_t from, std::int64_t to) {
        const auto k = load_pack<N>(args.kv.k_slab + from);
        const auto v = load_pack<N>(args.kv.v_slab + from);
        store_pack(args.k + to, k);
        store_pack(args.v + to, v);
    });
}

template <class T, int N>
__device__ void add_pack(const T* gradient, Accumulator<T>* sum, bool fresh) {
    const auto addend = load_pack<N>(gradient);
    Pack<Accumulator<T>, N> total = fresh ? Pack<Accumulator<T>, N>{} : load_pack<N>(sum);
    for (int j = 0; j < N; ++j) {
        total.e[j] = fresh ? widen(addend.e[j]) : total.e[j] + widen(addend.e[j]);
    }
    store_pack(sum, total);
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock) add_kernel(const GradientPagesAdd<T> args) {
    for_packs<N>(args.d_kv, [&](std::int64_t page, std::int64_t to, std::int64_t from) {
        const bool fresh = args.first_touch != nullptr && args.first_touch[page] != 0;
        add_pack<T, N>(args.dk + from, args.d_kv.k_slab + to, fresh);
        add_pack<T, N>(args.dv + from, args.d_kv.v_slab + to, fresh);
    });
}

}  // namespace

template <class T>
void gather_pages(const PageGather<T>& args, cudaStream_t stream) {
    if (args.kv.tokens == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    const unsigned blocks = blocks_for(args.kv.tokens, kRows);
    const bool packs = args.kv.kv_heads * args.kv.head_dim % kPack == 0;
    if (packs && aligned_for_packs(args.kv.k_slab, args.kv.v_slab, args.k, args.v)) {
        gather_kernel<T, kPack><<<blocks, kBlock, 0, stream>>>(args);
    } else {
        gather_kernel<T, 1><<<blocks, kBlock, 0, stream>>>(args);
    }
    check_launch("gather_pages");
}

template <class T>
void add_to_gradient_pages(const GradientPagesAdd<T>& args, cudaStream_t stream) {
    if (args.d_kv.tokens == 0) {
        return;
    }
    constexpr int kPack = kPackSize<Accumulator<T>>;
    const unsigned blocks = blocks_for(args.d_kv.tokens, kRows);
    const bool packs = args.d_kv.kv_heads * args.d_kv.head_dim % kPack == 0;
    if (packs && aligned_for_packs(args.d_kv.k_slab, args.d_kv.v_slab, args.dk, args.dv)) {
        add_kernel<T, kPack><<<blocks, kBlock, 0, stream>>>(args);
    } else {
        add_kernel<T, 1><<<blocks, kBlock, 0, stream>>>(args);
    }
    check_launch("add_to_gradient_pages");
}

template void gather_pages(const PageGather<double>&, cudaStream_t);
template void gather_pages(const PageGather<float>&, cudaStream_t);
template void gather_pages(const PageGather<BFloat16>&, cudaStream_t);
template void add_to_gradient_pages(const GradientPagesAdd<double>&, cudaStream_t);
template void add_to_gradient_pages(const GradientPagesAdd<float>&, cudaStream_t);
template void add_to_gradient_pages(const GradientPagesAdd<BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
