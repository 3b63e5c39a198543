#pragma once
// What the steps of the forward kernel share: which pages a tile reads, its products, the softmax over pages, its
// results. A block takes kRows queries of one head, a warpgroup 64 of them; a thread holds two rows, 8 apart, of the
// accumulators.

#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper/block.cuh"
#include "kernels/cuda/hopper/forward_kernels.hpp"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace oomb::kernels::cuda::hopper {

template <int kHeadDim, int kRows>
struct ForwardShared {
    static constexpr int kStages = 2;
    alignas(kAtomBytes) std::uint8_t q[tile_bytes(kRows, kHeadDim)];
    std::uint8_t k[kStages][tile_bytes(kPageTokens, kHeadDim)];
    std::uint8_t v[kStages][tile_bytes(kPageTokens, kHeadDim)];
    MemoryBarrier q_full, k_full[kStages], v_full[kStages], k_empty[kStages], v_empty[kStages];
};

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// Heads run fastest, so that those of a group read the same pages at the same time; tiles of the latest queries, which
// see the most keys, begin first.
struct TilePlace {
    int head, kv_head;
    std::int64_t first_query;

    __device__ TilePlace(const AttentionForward<BFloat16>& args, int rows) {
        const auto heads = static_cast<unsigned>(args.query_heads);
        head = static_cast<int>(blockIdx.x % heads);
        kv_head = head / (static_cast<int>(args.query_heads) / static_cast<int>(args.kv.kv_heads));
        first_query = std::int64_t{gridDim.x / heads - 1 - blockIdx.x / heads} * rows;
    }
};

// The pages of a tile in the order they are read.
struct Walk {
    TileKeys keys;
    const std::int32_t* list = nullptr;
    std::int32_t count = 0;

    // All lanes of a warp call.
    __device__ Walk(const ForwardOperands& op, std::int64_t first_query, int rows) {
        const int lane = threadIdx.x % kWarp;
        for (int row = lane; row < rows && first_query + row < op.args.tokens; row += kWarp) {
            keys.add(keys_seen(op.args.mask, op.args.kv, first_query + row));
        }
        keys.begin = __reduce_min_sync(kWholeWarp, keys.begin);
        keys.end = __reduce_max_sync(kWholeWarp, keys.end);
        keys.all_begin = __reduce_max_sync(kWholeWarp, keys.all_begin);
        keys.all_end = __reduce_min_sync(kWholeWarp, keys.all_end);
        count = keys.pages();
        if (op.lists.pages != nullptr) {
            list = op.lists.pages + first_query / kPageTokens * op.lists.count;
            int listed = 0;
            for (std::int64_t i = lane; i < op.lists.count; i += kWarp) {
                listed += list[i] >= 0 ? 1 : 0;
            }
            count = keys.empty() ? 0 : __reduce_add_sync(kWholeWarp, listed);
        }
    }
    __device__ std::int32_t page(std::int32_t i) const {
        return i >= count ? 0 : list != nullptr ? list[i] : keys.first_page() + i;
    }
};

template <int kHeadDim, int kRows>
__device__ void load_queries(std::uint8_t* to, const ForwardOperands& op, const TilePlace& place, MemoryBarrier& full) {
    full.arrive_expecting(tile_bytes(kRows, kHeadDim));
    load_rows_tile<kHeadDim, kRows>(to, op.q, place.head, place.first_query, full);
}

constexpr int kScores = kPageTokens / 2;            // registers of 64 x 128
constexpr int kWeightSteps = kPageTokens / kDepth;  // of a product over a page

// Begins s = q k^T: 64 queries by the keys of a page.
template <int kHeadDim, int kRows>
__device__ void multiply_keys(float (&s)[kScores], std::uint32_t q, std::uint32_t k) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadDim / kDepth; ++step) {
        Product<kPageTokens>::add<Summed::kAlongColumns, Summed::kAlongColumns>(
            s, summed_along_columns(q, kRows, step), summed_along_columns(k, kPageTokens, step), step > 0);
    }
    end_products();
}
// Begins o += weights v.
template <int kHeadDim>
__device__ void multiply_values(float (&o)[kHeadDim / 2], const std::uint32_t (&weights)[kWeightSteps][4],
                                std::uint32_t v) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kWeightSteps; ++step) {
        Product<kHeadDim>::template add<Summed::kAlongRows>(o, weights[step], summed_along_rows(v, kPageTokens, step),
                                                            true);
    }
    end_products();
}

// Keys that the thread's two rows see.
struct RowKeys {
    KeySpan rows[2];

    __device__ RowKeys(const AttentionForward<BFloat16>& args, std::int64_t first_row) {
        for (int r = 0; r < 2; ++r) {
            const std::int64_t query = first_row + 8 * r;
            rows[r] = query < args.tokens ? keys_seen(args.mask, args.kv, query) : KeySpan{};
        }
    }
    __device__ void hide(float (&s)[kScores], std::int32_t page) const {
        const std::int32_t first_key = page * kPageTokens + accumulator_column(threadIdx.x % kWarpgroup, 0);
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
            const std::int32_t key = first_key + accumulator_column(0, i);
            const KeySpan& row = rows[i / 2 % 2];
            s[i] = key >= row.begin && key < row.end ? s[i] : kNoScore;
        }
    }
};

// Of the thread's two rows: what weights are relative to, the largest score so far as a power of two, the same in all
// threads of the row; and this thread's part of their sum.
struct OnlineSoftmax {
    float reference[2] = {kNoScore, kNoScore};
    float total[2] = {0, 0};

    // Scores become weights, 0 for those that are -inf; `rescale` is what earlier sums are to be multiplied with,
    // exactly 1 where the reference stays: over thousands of pages nothing drifts.
    __device__ void weigh(float (&s)[kScores], float scale_log2, float (&rescale)[2]) {
        float subtracted[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float most = kNoScore;
#pragma unroll
            for (int i = 2 * r; i < kScores; i += 4) {
                most = fmaxf(most, fmaxf(s[i], s[i + 1]));
            }
            most = fmaxf(most, exchange(most, 1));
            most = fmaxf(most, exchange(most, 2));
            const float next = fmaxf(reference[r], most * scale_log2);
            // No finite score so far: nothing to subtract, or -inf - -inf would turn a zero weight into NaN.
            subtracted[r] = next == kNoScore ? 0.0F : next;
            rescale[r] = power_of_two(reference[r] - subtracted[r]);
            reference[r] = next;
        }
        float sum[2][2] = {};
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
            const int r = i / 2 % 2;
            s[i] = power_of_two(s[i] * scale_log2 - subtracted[r]);
            sum[r][i % 2] += s[i];
        }
        for (int r = 0; r < 2; ++r) {
            total[r] = total[r] * rescale[r] + (sum[r][0] + sum[r][1]);
        }
    }
};

// Most pages raise no row's reference: then there is nothing to multiply. All lanes of a warp call.
template <int kCount>
__device__ void rescale_rows(float (&o)[kCount], const float (&rescale)[2]) {
    if (!__any_sync(kWholeWarp, rescale[0] != 1.0F || rescale[1] != 1.0F)) {
        return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        o[i] *= rescale[i / 2 % 2];
    }
}

// Normalises, merges where asked, writes. All threads of a warp call.
template <int kHeadDim>
__device__ void write_rows(const ForwardOperands& op, int head, std::int64_t first_row, const float (&o)[kHeadDim / 2],
                           const OnlineSoftmax& softmax) {
    constexpr float kLn2 = 0.693147180559945309F;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float total = softmax.total[r] + exchange(softmax.total[r], 1);
        total += exchange(total, 2);
        const std::int64_t query = first_row + 8 * r;
        const bool has_row = query < op.args.tokens;
        const std::int64_t row = query * op.args.query_heads + head;
        const float earlier = op.merge && has_row ? op.args.lse_part[row] : kNoScore;
        __syncwarp();  // all threads of the row have read it
        const bool any = total != 0;
        const bool both = any && earlier != kNoScore;
        if (!has_row || (op.merge && !any)) {
            continue;
        }
        const float here = any ? (softmax.reference[r] + log2f(total)) * kLn2 : kNoScore;
        const float lse = both ? fmaxf(here, earlier) + log1pf(expf(-fabsf(here - earlier))) : here;
        const float weight = any ? (both ? expf(here - lse) : 1.0F) / total : 0.0F;
        const float earlier_weight = both ? expf(earlier - lse) : 0.0F;
        float* to = op.args.o_part + row * kHeadDim + accumulator_column(threadIdx.x % kWarpgroup, 0);
#pragma unroll
        for (int i = 2 * r; i < kHeadDim / 2; i += 4) {
            Pack<float, 2> pair{o[i] * weight, o[i + 1] * weight};
            if (both) {
                const auto before = load_pack<2>(to + accumulator_column(0, i));
                pair.e[0] += earlier_weight * before.e[0];
                pair.e[1] += earlier_weight * before.e[1];
            }
            store_pack(to + accumulator_column(0, i), pair);
        }
        if (threadIdx.x % 4 == 0) {
            op.args.lse_part[row] = lse;
        }
    }
}

// A block per tile of `rows` queries and head.
template <class Shared>
void launch_tiles(void (*kernel)(ForwardOperands), int rows, int threads, ForwardOperands op, cudaStream_t stream) {
    const AttentionForward<BFloat16>& args = op.args;
    op.q = rows_map(args.q, args.tokens, args.query_heads, args.kv.head_dim, rows);
    const std::int64_t blocks = (args.tokens + rows - 1) / rows * args.query_heads;
    launch_blocks<Shared>(kernel, blocks, threads, op, kForwardName, stream);
}

}  // namespace oomb::kernels::cuda::hopper
