#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/qkv_heads.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kDepth = 2;                  // rows under way while one is worked on
constexpr std::int64_t kFullBlocks = 264;  // two per multiprocessor of an H200; fixed, so that sums are

// `gradient`, of the norm's output, becomes that of its input x; its weight's is added to `sums`.
template <class T, int N>
__device__ void norm_backward(Share<Accumulator<T>, N>& gradient, const Share<Accumulator<T>, N>& x,
                              const Share<T, N>& weight, const Place<N>& place, double eps,
                              Share<Accumulator<T>, N>& sums) {
    using A = Accumulator<T>;
    A projection = 0;
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            projection += widen(weight.packs[p].e[j]) * gradient.packs[p].e[j] * x.packs[p].e[j];
        }
    }
    const A one_over_width = 1 / A(2 * place.half);
    const A r = rsqrt(place.sum(sum_of_squares(x)) * one_over_width + A(eps));
    const A pull = r * r * r * one_over_width * place.sum(projection);
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            const A value = x.packs[p].e[j];
            const A dy = gradient.packs[p].e[j];
            sums.packs[p].e[j] += dy * value * r;
            gradient.packs[p].e[j] = r * widen(weight.packs[p].e[j]) * dy - value * pull;
        }
    }
}

template <class T, int N>
__device__ const Accumulator<T>* gradient_at(const QkvBackward<T>& args, const Place<N>& place, std::int64_t row) {
    if (!place.active) {
        return nullptr;
    }
    return place.part == Part::kQuery
               ? args.d_query + (row * args.query_heads + place.index) * args.head_dim
               : place.template choose<const Accumulator<T>>(nullptr, args.d_kv.k_slab, args.d_kv.v_slab) +
                     row_offset(args.d_kv, row, place.index);
}

// Where blocks of rows leave their sums: [blocks, heads, head_dim] and [blocks, slices, queries or keys, head_dim].
// Null where nobody asks.
template <class A>
struct Partials {
    A* bias;
    A* norm;
};

// Sums over the block's heads of queries, then of keys.
template <class T, int N>
__device__ void write_norm_sums(const QkvBackward<T>& args, const Spread& spread, const Place<N>& place,
                                const Share<Accumulator<T>, N>& sums, Accumulator<T>* shared, Accumulator<T>* out) {
    using A = Accumulator<T>;
    const int dim = 2 * place.half;
    const int block_first = static_cast<int>(blockIdx.y) * spread.heads, block_end = block_first + spread.heads;
    __syncthreads();  // sines and rows are used up
    place.write(shared + static_cast<int>(threadIdx.x) / place.lanes * dim, sums);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 2 * dim; i += static_cast<int>(blockDim.x)) {
        const int part_first = i < dim ? 0 : int(args.query_heads);
        const int part_end = int(args.query_heads) + (i < dim ? 0 : int(args.kv_heads));
        A sum = 0;
        for (int head = max(block_first, part_first); head < min(block_end, part_end); ++head) {
            sum += shared[(head - block_first) * dim + i % dim];
        }
        out[i] = sum;
    }
}

template <int N, bool Norms>
constexpr int kRegisters = N == 1 ? 255 : (Norms ? 96 : 56);

// All heads of all rows; leaves the sums of its rows. Loads are of accumulators in packs of 16 bytes.
template <class T, int N, bool Norms>
__global__ void __maxnreg__((kRegisters<N, Norms>))
    backward_kernel(const QkvBackward<T> args, const Spread spread, const Partials<Accumulator<T>> partials) {
    using A = Accumulator<T>;
    extern __shared__ double shared[];
    const int heads = int(args.query_heads + 2 * args.kv_heads);
    const Place<N> place(args, spread, 0, heads);
    const OwnRows rows(args.rows);
    const Sines<A> sines{reinterpret_cast<A*>(shared), place.half};
    auto* slots = reinterpret_cast<char*>(sines.start + 4 * kTile * place.half);
    const Ahead<A, N> gradients(slots);
    const Ahead<T, N> products(slots + kDepth * Ahead<A, N>::kBytes * blockDim.x);
    const T* bias = own_bias(place, place.choose(args.q_bias, args.k_bias, static_cast<const T*>(nullptr)));
    const T* norm = place.choose(args.q_norm, args.k_norm, static_cast<const T*>(nullptr));
    const auto linear_at = [&](int i) { return args.qkv + (rows.row(i) * heads + place.head) * args.head_dim; };
    const auto start = [&](int i) {
        if (i < rows.count) {
            gradients.start(place, i % kDepth, gradient_at(args, place, rows.row(i)));
            if (Norms && norm != nullptr) {
                products.start(place, i % kDepth, linear_at(i));
            }
        }
        __pipeline_commit();
    };
    for (int i = 0; i < kDepth; ++i) {
        start(i);
    }
    sines.fill(args, -1.0, rows, 0);
    Share<A, N> bias_sums{}, norm_sums{};
    for (int i = 0; i < rows.count; ++i) {
        if (i % kTile == 0) {
            __syncthreads();
            sines.fill(args, -1.0, rows, i / kTile + 1);
        }
        __pipeline_wait_prior(kDepth - 1);
        auto gradient = gradients.take(place, i % kDepth, [&] { return gradient_at(args, place, rows.row(i)); });
        Share<T, N> product{};
        if (Norms && norm != nullptr) {
            product = products.take(place, i % kDepth, [&] { return linear_at(i); });
        }
        start(i + kDepth);
        if (place.part != Part::kValue) {
            place.rotate(gradient, sines.table(i / kTile), i % kTile);
        }
        if constexpr (Norms) {
            auto before_norm = gradient;
            norm_backward(before_norm, sum_of(product, place.read(bias)), place.read(norm), place, args.eps, norm_sums);
            gradient = norm != nullptr ? before_norm : gradient;
        }
        for (int p = 0; p < kPacks<N>; ++p) {
            for (int j = 0; j < N; ++j) {
                bias_sums.packs[p].e[j] += gradient.packs[p].e[j];
            }
        }
        place.write(linear_at(i), gradient);
    }
    if (partials.bias != nullptr) {
        place.write(partials.bias + (std::int64_t{blockIdx.x} * heads + place.head) * args.head_dim, bias_sums);
    }
    if (Norms && partials.norm != nullptr) {
        const std::int64_t block = std::int64_t{blockIdx.x} * spread.slices + blockIdx.y;
        write_norm_sums(args, spread, place, norm_sums, sines.start, partials.norm + block * 2 * args.head_dim);
    }
}

template <class A>
std::int64_t partial_elements(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, const Spread& spread) {
    return row_blocks(rows, spread, kFullBlocks) * (heads + 2 * spread.slices) * head_dim;
}

template <class T, int N>
void launch_backward(const QkvBackward<T>& args, Accumulator<T>* workspace, cudaStream_t stream) {
    using A = Accumulator<T>;
    const std::int64_t dim = args.head_dim, heads = args.query_heads + 2 * args.kv_heads;
    if (args.rows == 0 || heads == 0) {
        return;
    }
    const Spread spread = spread_of<N>(heads, dim);
    const std::int64_t blocks = row_blocks(args.rows, spread, kFullBlocks);
    const bool norms = args.q_norm != nullptr || args.k_norm != nullptr;
    const bool bias_sums = args.d_q_bias != nullptr || args.d_k_bias != nullptr || args.d_v_bias != nullptr;
    const bool norm_sums = args.d_q_norm != nullptr || args.d_k_norm != nullptr;
    A* norm_start = workspace + blocks * heads * dim;
    const Partials<A> partials{bias_sums ? workspace : nullptr, norm_sums ? norm_start : nullptr};
    const std::int64_t row_bytes = Ahead<A, N>::kBytes + (norms ? Ahead<T, N>::kBytes : 0);
    const std::int64_t work_bytes = 2 * kTile * dim * std::int64_t{sizeof(A)} + kDepth * row_bytes * spread.threads;
    const std::int64_t sum_bytes = norms ? spread.heads * dim * std::int64_t{sizeof(A)} : 0;
    const std::int64_t shared_bytes = std::max(work_bytes, sum_bytes);
    const dim3 grid(blocks_for(blocks, 1), unsigned(spread.slices));
    const auto kernel = norms ? backward_kernel<T, N, true> : backward_kernel<T, N, false>;
    allow_shared_bytes(kernel, shared_bytes);
    kernel<<<grid, spread.threads, shared_bytes, stream>>>(args, spread, partials);
    check_launch("qkv_backward");
    const auto bias = [&](A* sums, std::int64_t first_head, std::int64_t own_heads) {
        return ColumnSums<A>{workspace + first_head * dim, sums, blocks, heads * dim, own_heads * dim};
    };
    const auto norm = [&](A* sums, std::int64_t offset) {
        return ColumnSums<A>{norm_start + offset, sums, blocks * spread.slices, 2 * dim, dim};
    };
    const ColumnSumsList<A, 5> sums{{bias(args.d_q_bias, 0, args.query_heads),
                                     bias(args.d_k_bias, args.query_heads, args.kv_heads),
                                     bias(args.d_v_bias, args.query_heads + args.kv_heads, args.kv_heads),
                                     norm(args.d_q_norm, 0), norm(args.d_k_norm, dim)}};
    add_partial_sums(sums, "qkv_backward, sums over rows", stream);
}

}  // namespace

template <class T>
std::size_t qkv_backward_workspace_bytes(std::int64_t rows, std::int64_t query_heads, std::int64_t kv_heads,
                                         std::int64_t head_dim) {
    using A = Accumulator<T>;
    const std::int64_t heads = query_heads + 2 * kv_heads;
    if (heads == 0) {
        return 0;
    }
    const std::int64_t singles = partial_elements<A>(rows, heads, head_dim, spread_of<1>(heads, head_dim));
    const std::int64_t packs = partial_elements<A>(rows, heads, head_dim, spread_of<kPackSize<A>>(heads, head_dim));
    return static_cast<std::size_t>(std::max(singles, packs)) * sizeof(A);
}

template <class T>
void qkv_backward(const QkvBackward<T>& args, void* workspace, cudaStream_t stream) {
    check_operands(args, args.d_kv, "qkv_backward");
    require_operand(args.d_kv.tokens == args.rows, "qkv_backward", "tokens of pages", args.d_kv.tokens,
                    "the number of rows");
    auto* sums = static_cast<Accumulator<T>*>(workspace);
    constexpr int kPack = kPackSize<Accumulator<T>>;
    if (comes_in_packs<kPack>(args.head_dim) &&
        aligned_for_packs(args.qkv, args.q_bias, args.k_bias, args.q_norm, args.k_norm, args.d_query, args.d_kv.k_slab,
                          args.d_kv.v_slab, sums)) {
        launch_backward<T, kPack>(args, sums, stream);
    } else {
        launch_backward<T, 1>(args, sums, stream);
    }
}

#define OOMB_INSTANTIATE(T)                                                                                       \
    template std::size_t qkv_backward_workspace_bytes<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t); \
    template void qkv_backward(const QkvBackward<T>&, void*, cudaStream_t);
OOMB_INSTANTIATE(double)
OOMB_INSTANTIATE(float)
OOMB_INSTANTIATE(BFloat16)
#undef OOMB_INSTANTIATE

}  // namespace oomb::kernels::cuda
