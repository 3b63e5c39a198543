#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/qkv_heads.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kDepth = 4;                  // rows under way while one is worked on
constexpr std::int64_t kFullBlocks = 396;  // three per multiprocessor of an H200

template <class T, int N>
__device__ void scale(Share<Accumulator<T>, N>& x, const Share<T, N>& weight, Accumulator<T> r) {
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            x.packs[p].e[j] = widen(weight.packs[p].e[j]) * x.packs[p].e[j] * r;
        }
    }
}

// Heads [first_head, end_head) of all rows.
template <class T, int N, bool Norms>
__global__ void __maxnreg__(N == 1 ? 224 : 72)
    forward_kernel(const QkvForward<T> args, const Spread spread, const int first_head, const int end_head) {
    using A = Accumulator<T>;
    extern __shared__ double shared[];
    const Place<N> place(args, spread, first_head, end_head);
    const OwnRows rows(args.rows);
    const Sines<A> sines{reinterpret_cast<A*>(shared), place.half};
    const Ahead<T, N> ahead(sines.start + 4 * kTile * place.half);
    const auto linear_at = [&](int i) {
        const std::int64_t head = rows.row(i) * (args.query_heads + 2 * args.kv_heads) + place.head;
        return args.qkv + head * args.head_dim;
    };
    const auto start = [&](int i) {
        if (i < rows.count) {
            ahead.start(place, i % kDepth, linear_at(i));
        }
        __pipeline_commit();
    };
    for (int i = 0; i < kDepth; ++i) {
        start(i);
    }
    const auto bias = place.read(own_bias(place, place.choose(args.q_bias, args.k_bias, args.v_bias)));
    sines.fill(args, 1.0, rows, 0);
    for (int i = 0; i < rows.count; ++i) {
        if (i % kTile == 0) {
            __syncthreads();
            sines.fill(args, 1.0, rows, i / kTile + 1);
        }
        __pipeline_wait_prior(kDepth - 1);
        auto x = sum_of(ahead.take(place, i % kDepth, [&] { return linear_at(i); }), bias);
        start(i + kDepth);
        if constexpr (Norms) {
            const T* norm = place.choose(args.q_norm, args.k_norm, static_cast<const T*>(nullptr));
            const A r = rsqrt(place.sum(sum_of_squares(x)) / A(args.head_dim) + A(args.eps));
            if (norm != nullptr) {
                scale(x, place.read(norm), r);
            }
        }
        if (place.part != Part::kValue) {
            place.rotate(x, sines.table(i / kTile), i % kTile);
        }
        if (place.active) {
            const std::int64_t row = rows.row(i);
            T* page = place.template choose<T>(nullptr, args.kv.k_slab, args.kv.v_slab);
            place.write(place.part == Part::kQuery ? args.query + (row * args.query_heads + place.index) * args.head_dim
                                                   : page + row_offset(args.kv, row, place.index),
                        x);
        }
    }
}

template <class T, int N>
void launch_forward(const QkvForward<T>& args, cudaStream_t stream) {
    const std::int64_t first_head = args.query != nullptr ? 0 : args.query_heads;
    const std::int64_t end_head = args.query_heads + (args.kv.tokens != 0 ? 2 * args.kv_heads : 0);
    if (args.rows == 0 || first_head == end_head) {
        return;
    }
    const Spread spread = spread_of<N>(end_head - first_head, args.head_dim);
    const std::int64_t sine_bytes = 2 * kTile * args.head_dim * std::int64_t{sizeof(Accumulator<T>)};
    const std::int64_t shared_bytes = sine_bytes + std::int64_t{kDepth} * Ahead<T, N>::kBytes * spread.threads;
    const bool norms = args.q_norm != nullptr || args.k_norm != nullptr;
    const auto kernel = norms ? forward_kernel<T, N, true> : forward_kernel<T, N, false>;
    allow_shared_bytes(kernel, shared_bytes);
    const dim3 grid(blocks_for(row_blocks(args.rows, spread, kFullBlocks), 1), unsigned(spread.slices));
    kernel<<<grid, spread.threads, shared_bytes, stream>>>(args, spread, int(first_head), int(end_head));
    check_launch("qkv_forward");
}

}  // namespace

template <class T>
void qkv_forward(const QkvForward<T>& args, cudaStream_t stream) {
    check_operands(args, args.kv, "qkv_forward");
    if (comes_in_packs<kPackSize<T>>(args.head_dim) &&
        aligned_for_packs(args.qkv, args.q_bias, args.k_bias, args.v_bias, args.q_norm, args.k_norm, args.query,
                          args.kv.k_slab, args.kv.v_slab)) {
        launch_forward<T, kPackSize<T>>(args, stream);
    } else {
        launch_forward<T, 1>(args, stream);
    }
}

template void qkv_forward(const QkvForward<double>&, cudaStream_t);
template void qkv_forward(const QkvForward<float>&, cudaStream_t);
template void qkv_forward(const QkvForward<BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
