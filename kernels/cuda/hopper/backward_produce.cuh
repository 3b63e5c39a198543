#pragma once
// The warps of the backward kernel that do not multiply: the producer, which brings a page and its tiles of queries,
// and the writers, which add a tile's dq to global memory.

#include "kernels/cuda/hopper/backward.cuh"
#include "kernels/cuda/hopper/turns.cuh"

namespace oomb::kernels::cuda::hopper {

// Pages in ascending order: those of the first, which most queries see in a causal chunk, begin first.
struct PagePlace {
    std::int32_t page;
    int kv_head;
    __device__ PagePlace(const AttentionBackward<BFloat16>& args, unsigned block)
        : page(static_cast<std::int32_t>(block / static_cast<unsigned>(args.kv.kv_heads))),
          kv_head(static_cast<int>(block % static_cast<unsigned>(args.kv.kv_heads))) {}
};

// What a lane of the producer knows of a tile: of every 32nd query. All lanes call.
template <int kHeadDim>
struct LaneQueries {
    static constexpr int kCount = kQueries<kHeadDim> / kWarp;
    std::uint32_t span[kCount];
    std::int32_t first_key = std::numeric_limits<std::int32_t>::max();

    // False if no query of the tile sees a key of the page.
    __device__ bool find(const AttentionBackward<BFloat16>& args, std::int32_t page, std::int32_t first_query) {
        bool any = false;
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const std::int32_t query = first_query + static_cast<int>(threadIdx.x) % kWarp + j * kWarp;
            const KeySpan seen = query < args.tokens ? keys_seen(args.mask, args.kv, query) : KeySpan{};
            span[j] = page_span(seen, page);
            any = any || span[j] != 0;
            first_key = seen.empty() || seen.begin > first_key ? first_key : seen.begin;
        }
        return __any_sync(kWholeWarp, any);
    }
    // Pages that add to the tile's dq before this one.
    __device__ int turn(const PageLists& lists, std::int32_t page, std::int32_t first_query) const {
        if (lists.pages == nullptr) {
            return page - __reduce_min_sync(kWholeWarp, first_key) / kPageTokens;
        }
        const std::int32_t* list = lists.pages + std::int64_t{first_query / kPageTokens} * lists.count;
        int earlier = 0;
#pragma unroll 1
        for (std::int64_t i = threadIdx.x % kWarp; i < lists.count; i += kWarp) {
            earlier += list[i] >= 0 && list[i] < page ? 1 : 0;
        }
        return __reduce_add_sync(kWholeWarp, earlier);
    }
    __device__ void write(TileRows<kHeadDim>& rows, const AttentionBackward<BFloat16>& args, int head,
                          std::int32_t first_query, int turn) const {
        constexpr float kLog2E = 1.44269504088896340736F;
        bool whole = true;
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const int i = static_cast<int>(threadIdx.x) % kWarp + j * kWarp;
            const std::int64_t row = (first_query + i) * args.query_heads + head;
            const float lse = span[j] != 0 ? args.lse[row] : -INFINITY;
            const bool sees = lse != -INFINITY;  // else it sees nothing at all
            rows.lse_log2[i] = sees ? lse * kLog2E : 0.0F;
            rows.delta[i] = sees ? args.delta[row] : 0.0F;
            rows.span[i] = sees ? span[j] : 0;
            whole = whole && sees && span[j] == kWholePage;
        }
        whole = __all_sync(kWholeWarp, whole);
        if (threadIdx.x % kWarp == 0) {
            rows.first_query = first_query;
            rows.head = head;
            rows.turn = turn;
            rows.masked = !whole;
        }
    }
};

// All lanes of one warp. Tiles of queries, and of each all heads of the group: where dq is ordered, no block comes to a
// tile long before the page whose turn it is, for blocks with fewer tiles leave out the last ones.
template <int kHeadDim, bool kOrdered, class Shared>
__device__ void produce(Shared& shared, const BackwardOperands& op, const PagePlace& place) {
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
    for (std::int32_t i = 0; i < walk.count * group; ++i) {  // one loop: two would want more registers
        const std::int32_t first_query = walk.first_query(i / group);
        const int head = place.kv_head * group + i % group;
        LaneQueries<kHeadDim> queries;
        const bool any = queries.find(args, place.page, first_query);
        // Turns are counted by lists, so a page takes its own even where a mask hides all of it.
        const bool has_turn = kOrdered && walk.list != nullptr && first_query < args.tokens;
        if (!any && !has_turn) {
            continue;
        }
        const int turn = kOrdered ? queries.turn(op.lists, place.page, first_query) : 0;
        MemoryBarrier& full = shared.full[ring.stage];
        shared.empty[ring.stage].wait(ring.parity ^ 1);
        if (lane == 0) {
            full.expect(2 * Shared::kTileBytes);
            load_rows_tile<kHeadDim, kQueries<kHeadDim>>(shared.q[ring.stage], op.q, head, first_query, full);
            load_rows_tile<kHeadDim, kQueries<kHeadDim>>(shared.d_o[ring.stage], op.d_o, head, first_query, full);
        }
        queries.write(shared.rows[ring.stage], args, head, first_query, turn);  // as long as the copies take
        full.arrive();
        ring.advance();
    }
    shared.empty[ring.stage].wait(ring.parity ^ 1);
    if (lane == 0) {
        shared.rows[ring.stage].head = -1;
    }
    shared.full[ring.stage].arrive();
}

// A warpgroup's part of dq, from where it is staged. One thread; to be committed.
template <int kHeadDim>
__device__ void add_part(const BackwardOperands& op, int consumer, int first_query, int head,
                         const std::uint8_t* staged) {
    constexpr bool kHalvesRows = kQueries<kHeadDim> == 128;  // else columns
    constexpr int kBoxFloats = kRowBytes / sizeof(float);
    const int column = kHalvesRows ? 0 : consumer * kTileRows;
    const int row = first_query + (kHalvesRows ? consumer * kTileRows : 0);
    for (int box = 0; box < kTileRows / kBoxFloats; ++box) {
        add_rows(op.dq, column + box * kBoxFloats, head, row, staged + box * kTileRows * kRowBytes);
    }
}

// One thread, for one warpgroup: adds its parts of dq as they come, where they are ordered each in its turn.
template <int kHeadDim, bool kOrdered, class Shared>
__device__ void write_parts(Shared& shared, const BackwardOperands& op, int consumer) {
    RingPlace<Shared::kPartsAtOnce> ring;
    for (;; ring.advance()) {
        shared.part_full[consumer][ring.stage].wait(ring.parity);
        const DqPart part = shared.part[consumer][ring.stage];
        if (part.head < 0) {
            break;
        }
        const auto tile = static_cast<std::int64_t>(part.first_query / kTileRows);
        std::int32_t* counter = op.turns + (tile * op.args.query_heads + part.head) * kConsumers + consumer;
        if (kOrdered) {
            await_turn(counter, part.turn);
        }
        add_part<kHeadDim>(op, consumer, part.first_query, part.head, shared.dq[consumer][ring.stage]);
        commit_bulk();
        wait_bulk_read();
        shared.part_empty[consumer][ring.stage].arrive();
        if (kOrdered) {
            wait_bulk();
            pass_turn(counter, part.turn + 1);
        }
    }
    wait_bulk();
}

}  // namespace oomb::kernels::cuda::hopper
