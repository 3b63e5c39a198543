#include <limits>

#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/page_score_kernels.hpp"
#include "kernels/cuda/page_selection.hpp"

namespace oomb::kernels::cuda {
namespace {

// Of the plain kernels, whose rows are warps.
template <class A>
struct PlainParts {
    A* sums;  // [tokens, kv_heads, head_dim]
    A* lse;   // [tokens, kv_heads]: logarithm of the softmax's denominator
};

// The score of a page under the row's sum of queries, of which its softmax is taken. All lanes get it.
template <class T>
__device__ Accumulator<T> exponent(const PageScores<T>& args, const WarpRow<Accumulator<T>>& query, std::int64_t page,
                                   std::int64_t kv_head) {
    const T* mean = args.means + (page * args.kv_heads + kv_head) * args.head_dim;
    using A = Accumulator<T>;
    return A(args.scale) * query.dot(WarpRow<A>::read(mean, args.head_dim));
}

// A warp takes one (token, KV head): sums up its group's queries and walks over the pages.
template <class T>
__global__ void __launch_bounds__(kAttentionBlock)
    denominator_kernel(const PageScores<T> args, const PlainParts<Accumulator<T>> parts) {
    using A = Accumulator<T>;
    const std::int64_t row = row_of_warp();
    if (row >= args.tokens * args.kv_heads) {
        return;
    }
    const std::int64_t group = args.query_heads / args.kv_heads;
    auto query = WarpRow<A>::zeros();
    for (std::int64_t i = 0; i < group; ++i) {
        query.add_scaled(A(1), WarpRow<A>::read(args.q + (row * group + i) * args.head_dim, args.head_dim));
    }
    query.write(parts.sums + row * args.head_dim, args.head_dim);
    A largest = -std::numeric_limits<A>::infinity();
    A total = 0;
    for (std::int64_t page = 0; page < args.pages; ++page) {
        const A score = exponent(args, query, page, row % args.kv_heads);
        if (score > largest) {
            total = total * exp(largest - score) + A(1);
            largest = score;
        } else {
            total += exp(score - largest);
        }
    }
    if (threadIdx.x % kWarp == 0) {
        parts.lse[row] = largest + log(total);
    }
}

// A warp takes one (query page, page) and walks over its tokens under each KV head.
template <class T>
__global__ void __launch_bounds__(kAttentionBlock)
    score_kernel(const PageScores<T> args, const PlainParts<Accumulator<T>> parts, std::int64_t query_pages) {
    using A = Accumulator<T>;
    const std::int64_t place = row_of_warp();
    if (place >= query_pages * args.pages) {
        return;
    }
    const std::int64_t page = place % args.pages, first = place / args.pages * args.page_tokens;
    const std::int64_t end = first + args.page_tokens < args.tokens ? first + args.page_tokens : args.tokens;
    A score = 0;
    for (std::int64_t kv_head = 0; kv_head < args.kv_heads; ++kv_head) {
        const auto mean =
            WarpRow<A>::read(args.means + (page * args.kv_heads + kv_head) * args.head_dim, args.head_dim);
        for (std::int64_t token = first; token < end; ++token) {
            const std::int64_t row = token * args.kv_heads + kv_head;
            const auto query = WarpRow<A>::read(parts.sums + row * args.head_dim, args.head_dim);
            score += exp(A(args.scale) * query.dot(mean) - parts.lse[row]);
        }
    }
    if (threadIdx.x % kWarp == 0) {
        args.scores[place] = score;
    }
}

constexpr std::size_t kAlignment = 16;

// Bytes of the sums, after which the denominators lie: as many for a number of float as for two of BFloat16.
template <class T>
std::size_t sum_bytes(std::int64_t tokens, std::int64_t kv_heads, std::int64_t head_dim) {
    const std::size_t bytes = static_cast<std::size_t>(tokens * kv_heads * head_dim) * sizeof(Accumulator<T>);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <class T>
void plain_page_scores(const PageScores<T>& args, std::int64_t query_pages, void* workspace, cudaStream_t stream) {
    using A = Accumulator<T>;
    auto* bytes = static_cast<std::byte*>(workspace);
    const PlainParts<A> parts{reinterpret_cast<A*>(bytes),
                              reinterpret_cast<A*>(bytes + sum_bytes<T>(args.tokens, args.kv_heads, args.head_dim))};
    const unsigned rows = blocks_for(args.tokens * args.kv_heads, kAttentionWarps);
    denominator_kernel<T><<<rows, kAttentionBlock, 0, stream>>>(args, parts);
    check_launch(kPageScoresName);
    const unsigned places = blocks_for(query_pages * args.pages, kAttentionWarps);
    score_kernel<T><<<places, kAttentionBlock, 0, stream>>>(args, parts, query_pages);
    check_launch(kPageScoresName);
}

}  // namespace

template <class T>
std::size_t page_scores_workspace_bytes(std::int64_t tokens, std::int64_t kv_heads, std::int64_t head_dim) {
    return sum_bytes<T>(tokens, kv_heads, head_dim) +
           static_cast<std::size_t>(tokens * kv_heads) * sizeof(Accumulator<T>);
}

template <class T>
void page_scores(const PageScores<T>& args, void* workspace, cudaStream_t stream) {
    require_operand(args.kv_heads > 0 && args.query_heads % args.kv_heads == 0, kPageScoresName, "query_heads",
                    args.query_heads, "a multiple of the KV heads");
    require_operand(args.head_dim <= kMostHeadDim, kPageScoresName, "head_dim", args.head_dim, "256 at most");
    require_operand(args.page_tokens > 0, kPageScoresName, "page_tokens", args.page_tokens, "positive");
    if (args.tokens == 0 || args.pages == 0) {
        return;
    }
    if constexpr (std::is_same_v<T, BFloat16>) {
        if (tensor_scores_take(args) && aligned_for_packs(workspace)) {
            const std::int64_t elements = args.tokens * args.kv_heads * args.head_dim;
            auto* high = static_cast<BFloat16*>(workspace);
            auto* lse = reinterpret_cast<float*>(static_cast<std::byte*>(workspace) +
                                                 sum_bytes<T>(args.tokens, args.kv_heads, args.head_dim));
            return tensor_page_scores(args, {high, high + elements, lse}, stream);
        }
    }
    const std::int64_t query_pages = (args.tokens + args.page_tokens - 1) / args.page_tokens;
    plain_page_scores(args, query_pages, workspace, stream);
}

#define OOMB_PAGE_SCORES(T)                                                                        \
    template std::size_t page_scores_workspace_bytes<T>(std::int64_t, std::int64_t, std::int64_t); \
    template void page_scores(const PageScores<T>&, void*, cudaStream_t);
OOMB_PAGE_SCORES(double)
OOMB_PAGE_SCORES(float)
OOMB_PAGE_SCORES(BFloat16)

}  // namespace oomb::kernels::cuda
