#pragma once
// Parts of the backward kernel. A block has a page and a KV head: two warpgroups with 64 keys each hold their dk and dv
// in registers and meet one tile of queries after another, over all heads of the group. Scores are transposed: rows are
// keys, columns queries.

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper/backward_kernels.hpp"
#include "kernels/cuda/hopper/block.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace oomb::kernels::cuda::hopper {

constexpr int kConsumers = 2;
constexpr int kConsumerThreads = kConsumers * kWarpgroup;

// Queries of a tile: a warpgroup's part of dq is 64 x 64 either way, half the columns or half the rows.
template <int kHeadDim>
constexpr int kQueries = kHeadDim == 128 ? 64 : 128;

// What the producer says of a tile; read in pairs.
template <int kHeadDim>
struct alignas(16) TileRows {
    float lse_log2[kQueries<kHeadDim>];  // lse / ln 2
    float delta[kQueries<kHeadDim>];
    std::uint32_t span[kQueries<kHeadDim>];  // keys of the page that the query sees, as page_span()
    int first_query;
    int head;     // -1: there are no more tiles
    int turn;     // pages that add to the tile's dq before this one; where dq is ordered
    bool masked;  // some query does not see some key
};

// A warpgroup's part of a tile's dq, on its way to the warp that adds it.
struct DqPart {
    int first_query, head, turn;  // as in TileRows
};

// kParts of dq of each warpgroup may be on their way.
template <int kHeadDim, int kParts>
struct BackwardShared {
    static constexpr int kStages = 2;  // consumers count on it
    static constexpr int kPartsAtOnce = kParts;
    static constexpr std::uint32_t kPageBytes = tile_bytes(kPageTokens, kHeadDim);
    static constexpr std::uint32_t kTileBytes = tile_bytes(kQueries<kHeadDim>, kHeadDim);
    alignas(kAtomBytes) std::uint8_t k[kPageBytes];
    std::uint8_t v[kPageBytes];
    std::uint8_t q[kStages][kTileBytes];
    std::uint8_t d_o[kStages][kTileBytes];
    std::uint8_t ds[2][tile_bytes(kPageTokens, kQueries<kHeadDim>)];  // [keys, queries], of this tile and the last
    std::uint8_t dq[kConsumers][kParts][kTileRows * kTileRows * sizeof(float)];  // on its way out
    TileRows<kHeadDim> rows[kStages];
    DqPart part[kConsumers][kParts];
    int block;  // in the order in which blocks begin
    MemoryBarrier kv_full, full[kStages], empty[kStages];
    MemoryBarrier part_full[kConsumers][kParts], part_empty[kConsumers][kParts];
};

// The tiles of queries that read a page, the last ones first, by their first query.
template <int kHeadDim>
struct ReaderWalk {
    static constexpr int kTile = kQueries<kHeadDim>;
    static constexpr int kTilesOfPage = kPageTokens / kTile;
    const std::int32_t* list = nullptr;
    std::int32_t first_tile = 0;
    std::int32_t count = 0;

    __device__ ReaderWalk(const BackwardOperands& op, std::int32_t page) {
        if (op.readers.offsets != nullptr) {
            list = op.readers.query_pages + op.readers.offsets[page];
            count = (op.readers.offsets[page + 1] - op.readers.offsets[page]) * kTilesOfPage;
        } else {
            const QuerySpan readers = readers_of(op.args.mask, op.args.kv, page, op.args.tokens);
            first_tile = static_cast<std::int32_t>(readers.begin / kTile);
            count = static_cast<std::int32_t>((readers.end + kTile - 1) / kTile) - first_tile;
        }
    }
    __device__ std::int32_t first_query(std::int32_t place) const {
        const std::int32_t i = count - 1 - place;
        return list != nullptr ? list[i / kTilesOfPage] * kPageTokens + i % kTilesOfPage * kTile
                               : (first_tile + i) * kTile;
    }
};

// Begins d (+)= A B over the columns of both tiles in shared memory: 64 rows of A by all rows of B.
template <int kHeadDim, int kRowsOfA, int kRowsOfB>
__device__ void multiply_rows(float (&d)[kRowsOfB / 2], std::uint32_t a, std::uint32_t b) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadDim / kDepth; ++step) {
        Product<kRowsOfB>::template add<Summed::kAlongColumns, Summed::kAlongColumns>(
            d, summed_along_columns(a, kRowsOfA, step), summed_along_columns(b, kRowsOfB, step), step > 0);
    }
    end_products();
}
// Begins d += A B with A in registers, over the rows of B.
template <int kHeadDim, int kRowsOfB>
__device__ void add_product(float (&d)[kHeadDim / 2], const std::uint32_t (&a)[kRowsOfB / kDepth][4], std::uint32_t b) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kRowsOfB / kDepth; ++step) {
        Product<kHeadDim>::template add<Summed::kAlongRows>(d, a[step], summed_along_rows(b, kRowsOfB, step), true);
    }
    end_products();
}
// The same, but `prepare` makes what a step wants of A: earlier steps are under way meanwhile.
template <int kHeadDim, int kRowsOfB, class Prepare>
__device__ void add_product(float (&d)[kHeadDim / 2], const std::uint32_t (&a)[kRowsOfB / kDepth][4], std::uint32_t b,
                            const Prepare& prepare) {
#pragma unroll
    for (int step = 0; step < kRowsOfB / kDepth; ++step) {
        prepare(step);
        begin_products();
        Product<kHeadDim>::template add<Summed::kAlongRows>(d, a[step], summed_along_rows(b, kRowsOfB, step), true);
    }
    end_products();
}

// Scores of 16 queries, those of `step`, become weights: a query's score relative to its log-sum-exp, 0 where it does
// not see the key.
template <int kHeadDim>
__device__ void weigh(float* s, int step, const TileRows<kHeadDim>& rows, bool masked, float scale_log2,
                      int first_key) {
    const int thread = threadIdx.x % kWarpgroup;
    const int first_column = step * kDepth + accumulator_column(thread, 0);
#pragma unroll
    for (int i = 0; i < 8; i += 4) {  // two columns of two rows
        const auto lse = load_pack<2>(rows.lse_log2 + first_column + accumulator_column(0, i));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            s[i + j] = power_of_two(s[i + j] * scale_log2 - lse.e[j % 2]);
        }
    }
    if (!masked) {
        return;
    }
    const int key = first_key + accumulator_row(thread, 0);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const std::uint32_t span = rows.span[first_column + accumulator_column(0, i)];
        s[i] = in_page_span(span, key + accumulator_row(0, i)) ? s[i] : 0.0F;
    }
}

// dp of 16 queries becomes the gradient of scores but for the scale: weight (dp - delta).
template <int kHeadDim>
__device__ void differentiate(float* dp, const float* weights, int step, const TileRows<kHeadDim>& rows) {
    const float* delta_of_thread =
        rows.delta + step * kDepth + accumulator_column(static_cast<int>(threadIdx.x) % kWarpgroup, 0);
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        const auto delta = load_pack<2>(delta_of_thread + accumulator_column(0, i));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            dp[i + j] = weights[i + j] * (dp[i + j] - delta.e[j % 2]);
        }
    }
}

// A warpgroup's 64 keys of ds to shared memory, [keys, queries].
template <int kSteps>
__device__ void store_keys(std::uint8_t* ds, const std::uint32_t (&packed)[kSteps][4], int first_key) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = first_key + accumulator_row(static_cast<int>(threadIdx.x) % kWarpgroup - lane, 0) + lane % 16;
    const std::uint32_t first = tile_byte(row, lane / 16 * 8, kPageTokens);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {  // 32 bytes further on, four to a box
        store_matrices(ds + step / 4 * kPageTokens * kRowBytes + (first ^ (step % 4 * 32)), packed[step]);
    }
}

// A warpgroup's 64 x 64 of dq, scaled, to where the copy engine adds it from. The threads that store at once have 4
// rows of 32 bytes, and the swizzle brings rows 2 i and 2 i + 1 to the same banks: odd rows store columns 16 further on
// first.
__device__ inline void store_queries(std::uint8_t* to, const float (&dq)[kTileRows / 2], float scale) {
    constexpr int kFurther = 8;  // registers; 64 bytes
    const int thread = threadIdx.x % kWarpgroup;
    const int row = accumulator_row(thread, 0);
    const int column = accumulator_column(thread, 0);
    const bool odd = row % 2 != 0;
#pragma unroll
    for (int i = 0; i < kTileRows / 2; i += 2) {
        const std::uint32_t byte =
            tile_byte<4>(row + accumulator_row(0, i), column + accumulator_column(0, i), kTileRows) ^ (odd ? 64 : 0);
        const int other = i ^ kFurther;
        store_pack(reinterpret_cast<float*>(to + byte),
                   Pack<float, 2>{(odd ? dq[other] : dq[i]) * scale, (odd ? dq[other + 1] : dq[i + 1]) * scale});
    }
}

// A warpgroup's 64 keys of a gradient, times `factor`, to their page's frame: written there if it is fresh, else added.
template <int kHeadDim>
__device__ void write_keys(float* slab, const BackwardOperands& op, std::int32_t page, int kv_head, int first_key,
                           bool fresh, const float (&gradient)[kHeadDim / 2], float factor) {
    const auto& d_kv = op.args.d_kv;
    const int thread = threadIdx.x % kWarpgroup;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int key = first_key + accumulator_row(thread, 2 * r);
        if (std::int64_t{page} * kPageTokens + key >= d_kv.tokens) {
            continue;
        }
        const std::int64_t row = (std::int64_t{d_kv.frames[page]} * kPageTokens + key) * d_kv.kv_heads + kv_head;
        float* to = slab + row * kHeadDim + accumulator_column(thread, 0);
#pragma unroll
        for (int i = 2 * r; i < kHeadDim / 2; i += 4) {
            float* at = to + accumulator_column(0, i);
            auto sum = fresh ? Pack<float, 2>{} : load_pack<2>(at);
            sum.e[0] += factor * gradient[i];
            sum.e[1] += factor * gradient[i + 1];
            store_pack(at, sum);
        }
    }
}

}  // namespace oomb::kernels::cuda::hopper
