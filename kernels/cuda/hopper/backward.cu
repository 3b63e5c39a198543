// The backward kernel: a producer warp and two warpgroups that multiply. Per tile of queries, with K and V of the page
// in shared memory: s = K q^T, dp = V d_o^T, dv += p d_o, dk += ds q, dq = ds^T K.
#include "kernels/cuda/hopper/backward.cuh"

namespace oomb::kernels::cuda::hopper {
namespace {

constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;

// Named barriers: of both consumers, and of each.
constexpr int kBothConsumers = 1;
constexpr int kOneConsumer = 2;

struct PagePlace {
    std::int32_t page;
    int kv_head;
    __device__ explicit PagePlace(const AttentionBackward<BFloat16>& args)
        : page(static_cast<std::int32_t>(blockIdx.x / static_cast<unsigned>(args.kv.kv_heads))),
          kv_head(static_cast<int>(blockIdx.x % static_cast<unsigned>(args.kv.kv_heads))) {}
};

// What a lane of the producer knows of a tile: of every 32nd query. All lanes call.
template <int kHeadDim>
struct LaneQueries {
    static constexpr int kCount = kQueries<kHeadDim> / kWarp;
    std::uint32_t span[kCount];
    float lse[kCount], delta[kCount];

    // False if no query of the tile sees a key of the page.
    __device__ bool find(const AttentionBackward<BFloat16>& args, std::int32_t page, std::int64_t first_query) {
        bool any = false;
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const std::int64_t query = first_query + threadIdx.x % kWarp + j * kWarp;
            span[j] = query < args.tokens ? page_span(keys_seen(args.mask, args.kv, query), page) : 0;
            any = any || span[j] != 0;
        }
        return __any_sync(kWholeWarp, any);
    }
    __device__ void read(const AttentionBackward<BFloat16>& args, int head, std::int64_t first_query) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const std::int64_t row = (first_query + threadIdx.x % kWarp + j * kWarp) * args.query_heads + head;
            lse[j] = span[j] != 0 ? args.lse[row] : 0.0F;
            delta[j] = span[j] != 0 ? args.delta[row] : 0.0F;
        }
    }
    __device__ void write(TileRows<kHeadDim>& rows, int head, std::int64_t first_query) const {
        constexpr float kLog2E = 1.44269504088896340736F;
        bool whole = true;
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const int i = static_cast<int>(threadIdx.x) % kWarp + j * kWarp;
            const bool sees = span[j] != 0 && lse[j] != -INFINITY;  // -inf: the query sees nothing at all
            rows.lse_log2[i] = sees ? lse[j] * kLog2E : 0.0F;
            rows.delta[i] = sees ? delta[j] : 0.0F;
            rows.span[i] = sees ? span[j] : 0;
            whole = whole && sees && span[j] == kWholePage;
        }
        whole = __all_sync(kWholeWarp, whole);
        if (threadIdx.x % kWarp == 0) {
            rows.first_query = static_cast<int>(first_query);
            rows.head = head;
            rows.masked = !whole;
        }
    }
};

// All lanes of one warp.
template <int kHeadDim>
__device__ void produce(BackwardShared<kHeadDim>& shared, const BackwardOperands& op, const PagePlace& place) {
    using Shared = BackwardShared<kHeadDim>;
    const AttentionBackward<BFloat16>& args = op.args;
    const int lane = threadIdx.x % kWarp;
    if (lane == 0) {
        const bool last = place.page == (args.kv.tokens - 1) / kPageTokens;
        const std::int32_t frame = args.kv.frames[place.page];
        shared.kv_full.arrive_expecting(2 * Shared::kPageBytes);
        load_page_tile<kHeadDim>(shared.k, last ? op.pages.last_k : op.pages.k, place.kv_head, frame, shared.kv_full);
        load_page_tile<kHeadDim>(shared.v, last ? op.pages.last_v : op.pages.v, place.kv_head, frame, shared.kv_full);
    }
    const ReaderWalk<kHeadDim> walk(op, place.page);
    const int group = static_cast<int>(args.query_heads) / static_cast<int>(args.kv.kv_heads);
    RingPlace<Shared::kStages> ring;
    for (int head = place.kv_head * group; head < (place.kv_head + 1) * group; ++head) {
        for (std::int64_t i = 0; i < walk.count; ++i) {
            const std::int64_t first_query = walk.first_query(i);
            LaneQueries<kHeadDim> queries;
            if (!queries.find(args, place.page, first_query)) {
                continue;
            }
            queries.read(args, head, first_query);  // on its way while the stage is not free yet
            MemoryBarrier& full = shared.full[ring.stage];
            shared.empty[ring.stage].wait(ring.parity ^ 1);
            if (lane == 0) {
                full.expect(2 * Shared::kTileBytes);
                load_rows_tile<kHeadDim, kQueries<kHeadDim>>(shared.q[ring.stage], op.q, head, first_query, full);
                load_rows_tile<kHeadDim, kQueries<kHeadDim>>(shared.d_o[ring.stage], op.d_o, head, first_query, full);
            }
            queries.write(shared.rows[ring.stage], head, first_query);
            full.arrive();
            ring.advance();
        }
    }
    shared.empty[ring.stage].wait(ring.parity ^ 1);
    if (lane == 0) {
        shared.rows[ring.stage].head = -1;
    }
    shared.full[ring.stage].arrive();
}

// One warpgroup of those that multiply. kAhead: the scores of the next tile are begun before the last products of this
// one are waited for, so that dq goes out under them.
template <int kHeadDim, bool kAhead>
struct Consumer {
    static constexpr int kTile = kQueries<kHeadDim>;
    using Ring = RingPlace<BackwardShared<kHeadDim>::kStages>;
    BackwardShared<kHeadDim>& shared;
    const BackwardOperands& op;
    int index;
    float dk[kHeadDim / 2] = {};
    float dv[kHeadDim / 2] = {};

    __device__ std::uint32_t own_keys() const { return index * kTileRows * kRowBytes; }

    // Whether there is a tile at this place of the ring; waits until it is known.
    __device__ bool await_tile(const Ring& ring) {
        shared.full[ring.stage].wait(ring.parity);
        return shared.rows[ring.stage].head >= 0;
    }
    __device__ void begin_scores(float (&s)[kTile / 2], int stage) {
        multiply_rows<kHeadDim, kPageTokens, kTile>(s, shared_address(shared.k) + own_keys(),
                                                    shared_address(shared.q[stage]));
    }

    // Sums up what the tile of `stage` gives; `ds_tile` is one of two buffers, in turn. kAhead: `s` has its scores, and
    // gets those of the tile at `next`; whether there is one.
    __device__ bool take(int stage, const Ring& next, std::uint8_t* ds_tile, float (&s)[kTile / 2]) {
        const TileRows<kHeadDim>& rows = shared.rows[stage];
        const std::uint32_t q = shared_address(shared.q[stage]), d_o = shared_address(shared.d_o[stage]);
        float dp[kTile / 2];
        std::uint32_t p[kTile / kDepth][4], ds[kTile / kDepth][4];
        if constexpr (!kAhead) {
            begin_scores(s, stage);
        }
        multiply_rows<kHeadDim, kPageTokens, kTile>(dp, shared_address(shared.v) + own_keys(), d_o);
        if constexpr (!kAhead) {
            wait_products<1>(s);
        }
        weigh<kHeadDim>(s, rows, op.scale_log2, index * kTileRows);
        if constexpr (kTile == 64) {
            pack(p, s);
            add_product<kHeadDim, kTile>(dv, p, d_o);
            wait_products<1>(dp);
            differentiate<kHeadDim>(dp, s, rows);
        } else {  // scores, dp and packed weights side by side would be more registers than there are
            wait_products<0>(dp);
            differentiate<kHeadDim>(dp, s, rows);
            pack(p, s);
            add_product<kHeadDim, kTile>(dv, p, d_o);
        }
        pack(ds, dp);
        store_keys(ds_tile, ds, index * kTileRows);
        fence_for_async_reads();
        if (threadIdx.x % kWarpgroup == 0) {
            wait_bulk_read();  // of the last tile's dq
        }
        wait_at(kBothConsumers, kConsumerThreads);
        add_product<kHeadDim, kTile>(dk, ds, q);
        float dq[kTileRows / 2];
        multiply_keys(dq, shared_address(ds_tile));
        wait_products<1>(dk, dv, p, ds);
        const int first_query = rows.first_query, head = rows.head;
        __syncwarp();
        release(shared.empty[stage]);
        if constexpr (kAhead) {
            const bool more = await_tile(next);
            wait_products<0>(dq);
            begin_scores(s, next.stage);  // of no use if there is no more; ptxas serialises products begun in a branch
            add_queries(dq, first_query, head);
            wait_products<0>(s);
            return more;
        } else {
            wait_products<0>(dq);
            add_queries(dq, first_query, head);
            return true;
        }
    }

    // Begins dq = ds^T K, of this warpgroup's columns (of 128) or rows (of 128 queries), over all keys of the page.
    __device__ void multiply_keys(float (&dq)[kTileRows / 2], std::uint32_t ds_tile) const {
        const std::uint32_t own = index * kPageTokens * kRowBytes;
        const std::uint32_t a = ds_tile + (kTile == 128 ? own : 0);
        const std::uint32_t b = shared_address(shared.k) + (kTile == 128 ? 0 : own);
        begin_products();
#pragma unroll
        for (int step = 0; step < kPageTokens / kDepth; ++step) {
            Product<kTileRows>::template add<Summed::kAlongRows, Summed::kAlongRows>(
                dq, summed_along_rows(a, kPageTokens, step), summed_along_rows(b, kPageTokens, step), step > 0);
        }
        end_products();
    }

    __device__ void add_queries(const float (&dq)[kTileRows / 2], int first_query, int head) {
        std::uint8_t* const staged = shared.dq[index];
        store_queries(staged, dq, op.scale);
        fence_for_async_reads();
        wait_at(kOneConsumer + index, kWarpgroup);
        if (threadIdx.x % kWarpgroup == 0) {
            const int column = kTile == 128 ? 0 : index * kTileRows;
            const int row = first_query + (kTile == 128 ? index * kTileRows : 0);
            constexpr int kBoxFloats = kRowBytes / sizeof(float);
            for (int box = 0; box < kTileRows / kBoxFloats; ++box) {
                add_rows(op.dq, column + box * kBoxFloats, head, row, staged + box * kTileRows * kRowBytes);
            }
            commit_bulk();
        }
    }

    // Returns how many tiles there were.
    __device__ int take_all() {
        Ring ring;
        int tiles = 0;
        if constexpr (kAhead) {
            bool more = await_tile(ring);
            float s[kTile / 2];
            begin_scores(s, ring.stage);
            wait_products<0>(s);
            for (; more; ++tiles) {
                const int stage = ring.stage;
                ring.advance();
                more = take(stage, ring, shared.ds[tiles % 2], s);
            }
        } else {
            for (; await_tile(ring); ++tiles, ring.advance()) {
                float s[kTile / 2];
                take(ring.stage, ring, shared.ds[tiles % 2], s);
            }
        }
        return tiles;
    }

    __device__ void run(const PagePlace& place) {
        shared.kv_full.wait(0);
        const int tiles = take_all();
        const auto* first_touch = op.args.first_touch;
        const bool fresh = first_touch != nullptr && first_touch[place.page] != 0;
        if (fresh || tiles > 0) {
            const int first_key = index * kTileRows;
            write_keys<kHeadDim>(op.args.d_kv.k_slab, op, place.page, place.kv_head, first_key, fresh, dk, op.scale);
            write_keys<kHeadDim>(op.args.d_kv.v_slab, op, place.page, place.kv_head, first_key, fresh, dv, 1.0F);
        }
        if (threadIdx.x % kWarpgroup == 0) {
            wait_bulk();
        }
    }
};

template <int kHeadDim, bool kAhead>
__global__ void __launch_bounds__((kConsumers + 1) * kWarpgroup, 1)
    kernel(const __grid_constant__ BackwardOperands op) {
    auto& shared = shared_memory<BackwardShared<kHeadDim>>();
    if (threadIdx.x == 0) {
        shared.kv_full.init(1);
        for (int i = 0; i < shared.kStages; ++i) {
            shared.full[i].init(kWarp);
            shared.empty[i].init(kConsumerThreads / kWarp);
        }
        fence_initialised();
    }
    __syncthreads();
    const PagePlace place(op.args);
    const int warpgroup = warpgroup_index();
    if (warpgroup == 0) {
        give_up_registers<kProducerRegisters>();
        if (threadIdx.x < kWarp) {
            produce<kHeadDim>(shared, op, place);
        }
    } else {
        take_registers<kConsumerRegisters>();
        Consumer<kHeadDim, kAhead>{shared, op, warpgroup - 1}.run(place);
    }
}

}  // namespace

template <int kHeadDim, bool kAhead>
void launch_backward(const BackwardOperands& operands, cudaStream_t stream) {
    BackwardOperands op = operands;
    const AttentionBackward<BFloat16>& args = op.args;
    op.q = rows_map(args.q, args.tokens, args.query_heads, kHeadDim, kQueries<kHeadDim>);
    op.d_o = rows_map(args.d_o, args.tokens, args.query_heads, kHeadDim, kQueries<kHeadDim>);
    op.dq = rows_map<float>(args.dq, args.tokens, args.query_heads, kHeadDim, kTileRows);
    const std::int64_t pages = (args.kv.tokens + kPageTokens - 1) / kPageTokens;
    launch_blocks<BackwardShared<kHeadDim>>(kernel<kHeadDim, kAhead>, pages * args.kv.kv_heads,
                                            (kConsumers + 1) * kWarpgroup, op, kBackwardName, stream);
}
template void launch_backward<64, false>(const BackwardOperands&, cudaStream_t);
template void launch_backward<64, true>(const BackwardOperands&, cudaStream_t);
template void launch_backward<128, false>(const BackwardOperands&, cudaStream_t);
template void launch_backward<128, true>(const BackwardOperands&, cudaStream_t);

}  // namespace oomb::kernels::cuda::hopper
