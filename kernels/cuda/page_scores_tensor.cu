// Scores of pages by tensor cores, in two passes over the products of queries and means: the first finds the
// denominator of each query's softmax, the second adds up the weights that the queries of a page give a page. Neither
// stores a product. A block has 128 queries of one KV head, a warp 16 of them, in registers; means pass by in tiles of
// 64 pages, one in use and one on its way.
#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/page_score_kernels.hpp"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kWarpRows = 16;                 // of a product of 16 x 8 x 16
constexpr int kRows = kWarps * kWarpRows;     // queries of a block
constexpr int kTilePages = 64;                // means of a tile
constexpr int kColumnTiles = kTilePages / 8;  // products beside one another
constexpr int kScores = 4 * kColumnTiles;     // of a lane: rows r and r + 8, columns c and c + 1 of each product
constexpr int kMostTiles = 8;                 // of a block of the second pass
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

__device__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// d += a b: a [16, 16], b [16, 8], rows and columns of lanes as PTX has them for mma.m16n8k16.
__device__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of 8 x 8: lanes 8 i to 8 i + 7 have the rows of matrix i.
__device__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// 16 bytes to shared memory, zeros unless `there`.
__device__ void copy_ahead(std::uint32_t to, const BFloat16* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ void await_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Means of kTilePages pages of one KV head. Pieces of 16 bytes of a row change places, so that those of 8 rows lie in
// different banks.
template <int kHeadDim>
struct MeansTile {
    static constexpr int kPieces = kHeadDim / 8;
    alignas(128) BFloat16 means[kTilePages * kHeadDim];

    static __device__ int place(int page, int piece) { return (page * kPieces + (piece ^ (page % 8))) * 8; }

    // All threads of the block call. Pages that there are not are zero.
    __device__ void load(const PageScores<BFloat16>& args, std::int64_t first_page, std::int64_t kv_head) {
        for (int i = static_cast<int>(threadIdx.x); i < kTilePages * kPieces; i += kThreads) {
            const int page = i / kPieces, piece = i % kPieces;
            const bool there = first_page + page < args.pages;
            const std::int64_t row = (there ? first_page + page : 0) * args.kv_heads + kv_head;
            copy_ahead(static_cast<std::uint32_t>(__cvta_generic_to_shared(means + place(page, piece))),
                       args.means + row * kHeadDim + piece * 8, there);
        }
    }
};

// A warp's 16 sums of queries, as operands.
template <int kHeadDim>
struct WarpQueries {
    static constexpr int kSteps = kHeadDim / 16;
    std::uint32_t high[kSteps][4], low[kSteps][4];

    // Rows from `end` on are zero.
    __device__ void read(const PageScores<BFloat16>& args, const TensorScoreParts& parts, std::int64_t first_row,
                         std::int64_t end, std::int64_t kv_head) {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const std::int64_t row = first_row + lane / 4 + j % 2 * 8;
            const std::int64_t at = (row * args.kv_heads + kv_head) * kHeadDim + lane % 4 * 2 + j / 2 * 8;
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                const bool there = row < end;
                high[step][j] = there ? *reinterpret_cast<const std::uint32_t*>(parts.high + at + step * 16) : 0;
                low[step][j] = there ? *reinterpret_cast<const std::uint32_t*>(parts.low + at + step * 16) : 0;
            }
        }
    }

    // The products with a tile of means.
    __device__ void times(const MeansTile<kHeadDim>& tile, float (&s)[kScores]) const {
        const auto lane = threadIdx.x % kWarp;
        // Matrices: both halves of a step of one product's pages, then of the next one's. Along a row a step is an
        // exclusive or with the piece that the swizzle gives the lane.
        constexpr std::uint32_t kPieceBytes = 16, kRowBytes = kHeadDim * 2;
        const auto start = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile.means));
        const std::uint32_t row = start + (lane / 16 * 8 + lane % 8) * kRowBytes;
        const std::uint32_t piece = (lane / 8 % 2 ^ lane % 8) * kPieceBytes;
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
            s[i] = 0;
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            const std::uint32_t of_step = row + (piece ^ 2 * step * kPieceBytes);
#pragma unroll
            for (int column = 0; column < kColumnTiles; column += 2) {
                std::uint32_t b[4];
                load_matrices(b, of_step + column * 8 * kRowBytes);
                multiply(s + 4 * column, low[step], b[0], b[1]);
                multiply(s + 4 * column + 4, low[step], b[2], b[3]);
                multiply(s + 4 * column, high[step], b[0], b[1]);
                multiply(s + 4 * column + 4, high[step], b[2], b[3]);
            }
        }
    }
};

// A thread takes 8 columns of a sum of queries: heads in ascending order, in fp32.
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const PageScores<BFloat16> args, const TensorScoreParts parts, std::int64_t packs) {
    constexpr int kPack = kPackSize<BFloat16>;
    const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (at >= packs) {
        return;
    }
    const std::int64_t packs_of_row = args.head_dim / kPack, group = args.query_heads / args.kv_heads;
    const std::int64_t row = at / packs_of_row, column = at % packs_of_row * kPack;  // row: of a token and KV head
    float sum[kPack] = {};
    for (std::int64_t i = 0; i < group; ++i) {
        const auto query = load_pack<kPack>(args.q + (row * group + i) * args.head_dim + column);
        for (int j = 0; j < kPack; ++j) {
            sum[j] += widen(query.e[j]);
        }
    }
    Pack<BFloat16, kPack> high, low;
    for (int j = 0; j < kPack; ++j) {
        high.e[j] = narrow<BFloat16>(sum[j]);
        low.e[j] = narrow<BFloat16>(sum[j] - widen(high.e[j]));
    }
    store_pack(parts.high + at * kPack, high);
    store_pack(parts.low + at * kPack, low);
}

// Columns from `pages` on are no pages.
__device__ void hide(float (&s)[kScores], std::int64_t pages) {
    const int first = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
        s[i] = i / 4 * 8 + first + i % 2 < pages ? s[i] : kNoScore;
    }
}

// The softmax's reference and denominator of a thread's two rows, over the columns it holds.
struct Denominators {
    float reference[2] = {kNoScore, kNoScore};  // the largest exponent, to base 2
    float total[2] = {0, 0};

    __device__ void add(const float (&s)[kScores], float scale_log2) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float most = kNoScore;
#pragma unroll
            for (int i = 2 * r; i < kScores; i += 4) {
                most = fmaxf(most, fmaxf(s[i], s[i + 1]));
            }
            most = fmaxf(reference[r], most * scale_log2);
            // No score so far: nothing to subtract, for -inf - -inf is NaN.
            const float subtracted = most == kNoScore ? 0.0F : most;
            float sum = total[r] * power_of_two(reference[r] - subtracted);
#pragma unroll
            for (int i = 2 * r; i < kScores; i += 4) {
                sum += power_of_two(s[i] * scale_log2 - subtracted);
                sum += power_of_two(s[i + 1] * scale_log2 - subtracted);
            }
            total[r] = sum;
            reference[r] = most;
        }
    }

    // Over the four lanes that share the rows; the logarithm to base 2 of row r.
    __device__ float log2_over_lanes(int r) const {
        float most = fmaxf(reference[r], exchange(reference[r], 1));
        most = fmaxf(most, exchange(most, 2));
        const float subtracted = most == kNoScore ? 0.0F : most;
        float sum = total[r] * power_of_two(reference[r] - subtracted);
        sum += exchange(sum, 1);
        sum += exchange(sum, 2);
        return most + log2f(sum);
    }
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2)
    denominator_kernel(const PageScores<BFloat16> args, const TensorScoreParts parts, float scale_log2) {
    __shared__ MeansTile<kHeadDim> tiles[2];
    const auto heads = static_cast<unsigned>(args.kv_heads);
    const std::int64_t kv_head = blockIdx.x % heads;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t first_row =
        std::int64_t{blockIdx.x / heads} * kRows + static_cast<int>(threadIdx.x) / kWarp * kWarpRows;
    tiles[0].load(args, 0, kv_head);
    WarpQueries<kHeadDim> queries;
    queries.read(args, parts, first_row, args.tokens, kv_head);
    Denominators found;
    int turn = 0;
    for (std::int64_t page = 0; page < args.pages; page += kTilePages, turn ^= 1) {
        await_copies();
        __syncthreads();  // of all threads; and everyone has done with the other tile
        if (page + kTilePages < args.pages) {
            tiles[turn ^ 1].load(args, page + kTilePages, kv_head);
        }
        float s[kScores];
        queries.times(tiles[turn], s);
        if (page + kTilePages > args.pages) {
            hide(s, args.pages - page);
        }
        found.add(s, scale_log2);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float lse_log2 = found.log2_over_lanes(r);
        const std::int64_t row = first_row + lane / 4 + r * 8;
        if (lane % 4 == 0 && row < args.tokens) {
            parts.lse_log2[row * args.kv_heads + kv_head] = lse_log2;
        }
    }
}

// Of 2 kHalf sums a lane keeps one half, the lane at `distance` the other; each gives away what the other keeps.
// Returns where those kept began.
template <int kHalf>
__device__ int keep_half(float* sum, int distance) {
    const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
        const float kept = upper ? sum[kHalf + i] : sum[i];
        const float given = upper ? sum[i] : sum[kHalf + i];
        sum[i] = kept + exchange(given, distance);
    }
    return upper ? kHalf : 0;
}

// Scores of a warp's 16 queries become weights, and these are summed over the queries: 64 sums to shared memory, in an
// order that is always the same.
__device__ void sum_weights(const float (&s)[kScores], float scale_log2, const float (&lse_log2)[2],
                            float (&sums)[kTilePages]) {
    constexpr int kSums = 2 * kColumnTiles;  // of a lane: columns c and c + 1 of each product
    float sum[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
        const float* both_rows = s + i / 2 * 4 + i % 2;
        sum[i] = power_of_two(both_rows[0] * scale_log2 - lse_log2[0]) +
                 power_of_two(both_rows[2] * scale_log2 - lse_log2[1]);
    }
    int first = keep_half<8>(sum, 16);
    first += keep_half<4>(sum, 8);
    first += keep_half<2>(sum, 4);
    const int column = first / 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    sums[column] = sum[0];
    sums[column + 1] = sum[1];
}

// The pages [first_page, first_page + tiles * kTilePages) for one query page: over KV heads, over its queries.
struct ScoreBlock {
    std::int64_t query_page, first_page;
    int tiles;

    __device__ ScoreBlock(const PageScores<BFloat16>& args, int tiles_of_block) {
        const std::int64_t all_tiles = (args.pages + kTilePages - 1) / kTilePages;
        const std::int64_t blocks = (all_tiles + tiles_of_block - 1) / tiles_of_block;
        query_page = blockIdx.x / blocks;
        const std::int64_t first_tile = blockIdx.x % blocks * tiles_of_block;
        first_page = first_tile * kTilePages;
        tiles = static_cast<int>(all_tiles - first_tile < tiles_of_block ? all_tiles - first_tile : tiles_of_block);
    }
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2)
    score_kernel(const PageScores<BFloat16> args, const TensorScoreParts parts, float scale_log2, int tiles_of_block) {
    __shared__ MeansTile<kHeadDim> tiles[2];
    __shared__ float parts_of_warps[2][kWarps][kTilePages];
    __shared__ float sums[kMostTiles][kTilePages];
    const ScoreBlock block(args, tiles_of_block);
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    const std::int64_t first_row = block.query_page * args.page_tokens;
    const std::int64_t end_row =
        first_row + args.page_tokens < args.tokens ? first_row + args.page_tokens : args.tokens;
    const int row_tiles = (static_cast<int>(end_row - first_row) + kRows - 1) / kRows;
    const int steps_of_head = row_tiles * block.tiles, steps = static_cast<int>(args.kv_heads) * steps_of_head;
    for (int i = static_cast<int>(threadIdx.x); i < kMostTiles * kTilePages; i += kThreads) {
        sums[i / kTilePages][i % kTilePages] = 0;
    }
    const auto load_tile = [&](int step) {
        tiles[step % 2].load(args, block.first_page + step % block.tiles * kTilePages, step / steps_of_head);
    };
    // What the warps found in a step is added to the sums of its pages in the step after, when all have written.
    const auto add_step = [&](int step) {
        if (threadIdx.x < kTilePages) {
            float& sum = sums[step % block.tiles][threadIdx.x];
            for (const auto& of_warp : parts_of_warps[step % 2]) {
                sum += of_warp[threadIdx.x];
            }
        }
    };
    load_tile(0);
    WarpQueries<kHeadDim> queries;
    float lse_log2[2] = {};
    bool has_rows = false;
    for (int step = 0; step < steps; ++step) {
        if (step % block.tiles == 0) {
            const int kv_head = step / steps_of_head;
            const std::int64_t row = first_row + step % steps_of_head / block.tiles * kRows + warp * kWarpRows;
            has_rows = row < end_row;
            queries.read(args, parts, row, end_row, kv_head);
            for (int r = 0; r < 2; ++r) {
                const std::int64_t own = row + lane / 4 + r * 8;
                lse_log2[r] = own < end_row ? parts.lse_log2[own * args.kv_heads + kv_head]
                                            : std::numeric_limits<float>::infinity();  // weighs nothing
            }
        }
        await_copies();
        __syncthreads();  // of all threads; and everyone has done with the other tile
        if (step + 1 < steps) {
            load_tile(step + 1);
        }
        if (step > 0) {
            add_step(step - 1);
        }
        float(&found)[kTilePages] = parts_of_warps[step % 2][warp];
        if (has_rows) {
            float s[kScores];
            queries.times(tiles[step % 2], s);
            sum_weights(s, scale_log2, lse_log2, found);
        } else {
            found[lane] = found[lane + kWarp] = 0;
        }
    }
    __syncthreads();
    add_step(steps - 1);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < block.tiles * kTilePages; i += kThreads) {
        const std::int64_t page = block.first_page + i;
        if (page < args.pages) {
            args.scores[block.query_page * args.pages + page] = sums[i / kTilePages][i % kTilePages];
        }
    }
}

template <int kHeadDim>
void launch(const PageScores<BFloat16>& args, const TensorScoreParts& parts, cudaStream_t stream) {
    constexpr double kLog2E = 1.44269504088896340736;
    constexpr std::int64_t kBlocksAtOnce = 2 * 132;  // of an H200: two to a multiprocessor
    const auto scale_log2 = static_cast<float>(args.scale * kLog2E);
    const std::int64_t packs = args.tokens * args.kv_heads * (kHeadDim / kPackSize<BFloat16>);
    sum_kernel<<<blocks_for(packs, kThreads), kThreads, 0, stream>>>(args, parts, packs);
    check_launch(kPageScoresName);
    const std::int64_t row_blocks = (args.tokens + kRows - 1) / kRows;
    denominator_kernel<kHeadDim>
        <<<blocks_for(row_blocks * args.kv_heads, 1), kThreads, 0, stream>>>(args, parts, scale_log2);
    check_launch(kPageScoresName);
    const std::int64_t query_pages = (args.tokens + args.page_tokens - 1) / args.page_tokens;
    const std::int64_t tiles = (args.pages + kTilePages - 1) / kTilePages;
    const std::int64_t shared = query_pages * tiles / kBlocksAtOnce;  // a block's, where all begin at once
    const std::int64_t of_block = shared < 1 ? 1 : shared < kMostTiles ? shared : kMostTiles;
    const std::int64_t blocks = query_pages * ((tiles + of_block - 1) / of_block);
    score_kernel<kHeadDim>
        <<<blocks_for(blocks, 1), kThreads, 0, stream>>>(args, parts, scale_log2, static_cast<int>(of_block));
    check_launch(kPageScoresName);
}

}  // namespace

bool tensor_scores_take(const PageScores<BFloat16>& args) {
    return (args.head_dim == 64 || args.head_dim == 128) && args.scale > 0 && aligned_for_packs(args.q, args.means);
}

void tensor_page_scores(const PageScores<BFloat16>& args, const TensorScoreParts& parts, cudaStream_t stream) {
    if (args.head_dim == 64) {
        launch<64>(args, parts, stream);
    } else {
        launch<128>(args, parts, stream);
    }
}

}  // namespace oomb::kernels::cuda
