#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/qkv_heads.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kTile = 4;  // rows that share a table of sines
// Blocks of backward: two per multiprocessor of an H200, more only where blocks are small. Fixed, so that sums are.
constexpr std::int64_t kRowBlocks = 264;
constexpr std::int64_t kFullBlock = 256;

template <class A>
__device__ A inverse_root(A squares, int width, double eps) {
    return 1 / sqrt(squares / A(width) + A(eps));
}

template <class T, int N>
__device__ Share<Accumulator<T>, N> sum_of(const Share<T, N>& left, const Share<T, N>& right) {
    Share<Accumulator<T>, N> sum;
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            sum.packs[p].e[j] = widen(left.packs[p].e[j]) + widen(right.packs[p].e[j]);
        }
    }
    return sum;
}

// The head's columns of a parameter [heads, head_dim], or null.
template <class T, int N>
__device__ const T* own_bias(const Place<N>& place, const T* bias) {
    return bias == nullptr ? nullptr : bias + std::int64_t{place.index} * place.half * 2;
}

template <class A, int N>
__device__ A sum_of_squares(const Share<A, N>& x) {
    A squares = 0;
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            squares += x.packs[p].e[j] * x.packs[p].e[j];
        }
    }
    return squares;
}

template <class T, int N>
__device__ void scale(Share<Accumulator<T>, N>& x, const Share<T, N>& weight, Accumulator<T> r) {
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            x.packs[p].e[j] = widen(weight.packs[p].e[j]) * x.packs[p].e[j] * r;
        }
    }
}

// A block has kTile rows; the next row is under way while one is worked on. 72 registers: with the 36 heads of 28/4
// three blocks fit into a multiprocessor.
template <class T, int N, bool Norms>
__global__ void __maxnreg__(N == 1 ? 224 : 72)
    forward_kernel(const QkvForward<T> args, const Spread spread, const int first_head, const int end_head) {
    using A = Accumulator<T>;
    extern __shared__ double shared[];
    A* start = reinterpret_cast<A*>(shared);
    const Place<N> place(args, spread, first_head, end_head);
    const SineTable<A> sines{start, start + kTile * place.half, place.half};
    const std::int64_t first = std::int64_t{blockIdx.x} * kTile;
    const std::int64_t end = first + kTile < args.rows ? first + kTile : args.rows;
    const std::int64_t stride = (args.query_heads + 2 * args.kv_heads) * args.head_dim;
    const T* linear = args.qkv + first * stride + place.head * args.head_dim;
    auto next = place.read(linear);
    const auto bias = place.read(own_bias(place, place.choose(args.q_bias, args.k_bias, args.v_bias)));
    sines.fill(args, 1.0, static_cast<int>(end - first), [&](int r) { return args.first_position + first + r; });
    __syncthreads();
    for (std::int64_t row = first; row < end; ++row) {
        auto x = sum_of(next, bias);
        linear += stride;
        next = place.read(row + 1 < end ? linear : nullptr);
        if constexpr (Norms) {
            const T* norm = place.choose(args.q_norm, args.k_norm, static_cast<const T*>(nullptr));
            const A r = inverse_root(place.sum(sum_of_squares(x)), 2 * place.half, args.eps);
            if (norm != nullptr) {
                scale(x, place.read(norm), r);
            }
        }
        if (place.part != Part::kValue) {
            place.rotate(x, sines, static_cast<int>(row - first));
        }
        if (place.active) {
            T* page = place.template choose<T>(nullptr, args.kv.k_slab, args.kv.v_slab);
            place.write(place.part == Part::kQuery ? args.query + (row * args.query_heads + place.index) * args.head_dim
                                                   : page + row_offset(args.kv, row, place.index),
                        x);
        }
    }
}

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
    const int width = 2 * place.half;
    const A r = inverse_root(place.sum(sum_of_squares(x)), width, eps);
    const A pull = r * r * r / A(width) * place.sum(projection);
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
    __syncthreads();  // the table of sines is used up
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

// Block b takes rows [b * rows_per_block, (b + 1) * rows_per_block). The gradient of the next row is under way while
// one is worked on.
template <class T, int N, bool Norms>
__global__ void __launch_bounds__(kMostThreads<N>)
    backward_kernel(const QkvBackward<T> args, const Spread spread, const std::int64_t rows_per_block,
                    const Partials<Accumulator<T>> partials) {
    using A = Accumulator<T>;
    extern __shared__ double shared[];
    A* start = reinterpret_cast<A*>(shared);
    const int heads = int(args.query_heads + 2 * args.kv_heads);
    const Place<N> place(args, spread, 0, heads);
    const SineTable<A> sines{start, start + kTile * place.half, place.half};
    const T* bias = own_bias(place, place.choose(args.q_bias, args.k_bias, static_cast<const T*>(nullptr)));
    const T* norm = place.choose(args.q_norm, args.k_norm, static_cast<const T*>(nullptr));
    const std::int64_t first = blockIdx.x * rows_per_block;
    const std::int64_t end = first + rows_per_block < args.rows ? first + rows_per_block : args.rows;
    Share<A, N> bias_sums{}, norm_sums{};
    auto next = place.read(gradient_at(args, place, first));
    for (std::int64_t row = first; row < end; ++row) {
        const int in_tile = static_cast<int>(row - first) % kTile;
        if (in_tile == 0) {
            __syncthreads();  // the table of the tile before is used up
            sines.fill(args, -1.0, static_cast<int>(end - row < kTile ? end - row : kTile),
                       [&](int r) { return args.first_position + row + r; });
            __syncthreads();
        }
        auto gradient = next;
        next = place.read(row + 1 < end ? gradient_at(args, place, row + 1) : nullptr);
        T* linear = args.qkv + (row * heads + place.head) * args.head_dim;
        if (place.part != Part::kValue) {
            place.rotate(gradient, sines, in_tile);
        }
        if constexpr (Norms) {
            const auto x = sum_of(place.read(norm != nullptr ? linear : nullptr), place.read(bias));
            auto before_norm = gradient;
            norm_backward(before_norm, x, place.read(norm), place, args.eps, norm_sums);
            gradient = norm != nullptr ? before_norm : gradient;
        }
        for (int p = 0; p < kPacks<N>; ++p) {
            for (int j = 0; j < N; ++j) {
                bias_sums.packs[p].e[j] += gradient.packs[p].e[j];
            }
        }
        place.write(linear, gradient);
    }
    if (partials.bias != nullptr) {
        place.write(partials.bias + (std::int64_t{blockIdx.x} * heads + place.head) * args.head_dim, bias_sums);
    }
    if (Norms && partials.norm != nullptr) {
        const std::int64_t block = std::int64_t{blockIdx.x} * spread.slices + blockIdx.y;
        write_norm_sums(args, spread, place, norm_sums, start, partials.norm + block * 2 * args.head_dim);
    }
}

template <class Args, class Pages>
void check_operands(const Args& args, const Pages& pages, const char* kernel) {
    require_operand(args.head_dim % 2 == 0 && args.head_dim <= kMostQkvHeadDim, kernel, "head_dim", args.head_dim,
                    "even and 512 at most");
    if (pages.tokens != 0) {
        require_operand(pages.tokens == args.rows, kernel, "tokens of pages", pages.tokens, "the number of rows");
        require_operand(pages.kv_heads == args.kv_heads, kernel, "K/V heads of pages", pages.kv_heads, "kv_heads");
        require_operand(pages.head_dim == args.head_dim, kernel, "head_dim of pages", pages.head_dim, "head_dim");
        require_operand(pages.first_token == args.first_position, kernel, "first token of pages", pages.first_token,
                        "first_position");
    }
}

template <class T>
constexpr bool comes_in_packs(std::int64_t head_dim) {
    return head_dim % (2 * kPackSize<T>) == 0 && head_dim <= 2 * kPackSize<T> * kWarp;
}

template <class T, int N>
void launch_forward(const QkvForward<T>& args, cudaStream_t stream) {
    const std::int64_t first_head = args.query != nullptr ? 0 : args.query_heads;
    const std::int64_t end_head = args.query_heads + (args.kv.tokens != 0 ? 2 * args.kv_heads : 0);
    if (args.rows == 0 || first_head == end_head) {
        return;
    }
    const Spread spread = spread_of<N>(end_head - first_head, args.head_dim);
    const std::size_t shared_bytes = kTile * args.head_dim * sizeof(Accumulator<T>);
    const dim3 blocks(blocks_for(args.rows, kTile), unsigned(spread.slices));
    const bool norms = args.q_norm != nullptr || args.k_norm != nullptr;
    const auto kernel = norms ? forward_kernel<T, N, true> : forward_kernel<T, N, false>;
    kernel<<<blocks, spread.threads, shared_bytes, stream>>>(args, spread, int(first_head), int(end_head));
    check_launch("qkv_forward");
}

struct RowBlocks {
    std::int64_t count;
    std::int64_t rows;  // of each
};
RowBlocks row_blocks(std::int64_t rows, const Spread& spread) {
    const std::int64_t most = kRowBlocks * std::max<std::int64_t>(1, kFullBlock / spread.threads);
    const std::int64_t each = ((rows + most - 1) / most + kTile - 1) / kTile * kTile;
    return {rows == 0 ? 0 : (rows + each - 1) / each, each};
}

template <class A>
std::int64_t partial_elements(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, const Spread& spread) {
    return row_blocks(rows, spread).count * (heads + 2 * spread.slices) * head_dim;
}

template <class T, int N>
void launch_backward(const QkvBackward<T>& args, Accumulator<T>* workspace, cudaStream_t stream) {
    using A = Accumulator<T>;
    const std::int64_t dim = args.head_dim, heads = args.query_heads + 2 * args.kv_heads;
    if (args.rows == 0 || heads == 0) {
        return;
    }
    const Spread spread = spread_of<N>(heads, dim);
    const RowBlocks blocks = row_blocks(args.rows, spread);
    const bool norms = args.q_norm != nullptr || args.k_norm != nullptr;
    const bool bias_sums = args.d_q_bias != nullptr || args.d_k_bias != nullptr || args.d_v_bias != nullptr;
    const bool norm_sums = args.d_q_norm != nullptr || args.d_k_norm != nullptr;
    A* norm_start = workspace + blocks.count * heads * dim;
    const Partials<A> partials{bias_sums ? workspace : nullptr, norm_sums ? norm_start : nullptr};
    const std::size_t shared_bytes = std::max(kTile, norms ? spread.heads : 0) * dim * sizeof(A);
    const dim3 grid(blocks_for(blocks.count, 1), unsigned(spread.slices));
    const auto kernel = norms ? backward_kernel<T, N, true> : backward_kernel<T, N, false>;
    kernel<<<grid, spread.threads, shared_bytes, stream>>>(args, spread, blocks.rows, partials);
    check_launch("qkv_backward");
    const auto bias = [&](A* sums, std::int64_t first_head, std::int64_t own_heads) {
        return ColumnSums<A>{workspace + first_head * dim, sums, blocks.count, heads * dim, own_heads * dim};
    };
    const auto norm = [&](A* sums, std::int64_t offset) {
        return ColumnSums<A>{norm_start + offset, sums, blocks.count * spread.slices, 2 * dim, dim};
    };
    const ColumnSumsList<A, 5> sums{{bias(args.d_q_bias, 0, args.query_heads),
                                     bias(args.d_k_bias, args.query_heads, args.kv_heads),
                                     bias(args.d_v_bias, args.query_heads + args.kv_heads, args.kv_heads),
                                     norm(args.d_q_norm, 0), norm(args.d_k_norm, dim)}};
    add_partial_sums(sums, "qkv_backward, sums over rows", stream);
}

}  // namespace

template <class T>
void qkv_forward(const QkvForward<T>& args, cudaStream_t stream) {
    check_operands(args, args.kv, "qkv_forward");
    if (comes_in_packs<T>(args.head_dim) &&
        aligned_for_packs(args.qkv, args.q_bias, args.k_bias, args.v_bias, args.q_norm, args.k_norm, args.query,
                          args.kv.k_slab, args.kv.v_slab)) {
        launch_forward<T, kPackSize<T>>(args, stream);
    } else {
        launch_forward<T, 1>(args, stream);
    }
}

template <class T>
std::size_t qkv_backward_workspace_bytes(std::int64_t rows, std::int64_t query_heads, std::int64_t kv_heads,
                                         std::int64_t head_dim) {
    using A = Accumulator<T>;
    const std::int64_t heads = query_heads + 2 * kv_heads;
    if (heads == 0) {
        return 0;
    }
    const std::int64_t singles = partial_elements<A>(rows, heads, head_dim, spread_of<1>(heads, head_dim));
    const std::int64_t packs =
        comes_in_packs<T>(head_dim)
            ? partial_elements<A>(rows, heads, head_dim, spread_of<kPackSize<T>>(heads, head_dim))
            : 0;
    return static_cast<std::size_t>(std::max(singles, packs)) * sizeof(A);
}

template <class T>
void qkv_backward(const QkvBackward<T>& args, void* workspace, cudaStream_t stream) {
    check_operands(args, args.d_kv, "qkv_backward");
    require_operand(args.d_kv.tokens == args.rows, "qkv_backward", "tokens of pages", args.d_kv.tokens,
                    "the number of rows");
    auto* sums = static_cast<Accumulator<T>*>(workspace);
    if (comes_in_packs<T>(args.head_dim) &&
        aligned_for_packs(args.qkv, args.q_bias, args.k_bias, args.q_norm, args.k_norm, args.d_query, args.d_kv.k_slab,
                          args.d_kv.v_slab, sums)) {
        launch_backward<T, kPackSize<T>>(args, sums, stream);
    } else {
        launch_backward<T, 1>(args, sums, stream);
    }
}

#define OOMB_INSTANTIATE(T)                                                                                       \
    template void qkv_forward(const QkvForward<T>&, cudaStream_t);                                                \
    template std::size_t qkv_backward_workspace_bytes<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t); \
    template void qkv_backward(const QkvBackward<T>&, void*, cudaStream_t);
OOMB_INSTANTIATE(double)
OOMB_INSTANTIATE(float)
OOMB_INSTANTIATE(BFloat16)
#undef OOMB_INSTANTIATE

}  // namespace oomb::kernels::cuda
