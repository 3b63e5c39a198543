// The backward kernel: a producer warp and two warpgroups that multiply. Per tile of queries, with K and V of the page
// in shared memory: s = K q^T, dp = V d_o^T, dv += p d_o, dk += ds q, dq = ds^T K.
#include "kernels/cuda/hopper/backward_produce.cuh"

namespace oomb::kernels::cuda::hopper {
namespace {

constexpr bool is_specialised(BackwardStep step) {
    return step != BackwardStep::kSimple;
}

// Registers of a thread after roles are known: 64,512 in all, in steps of 8.
template <int kHeadDim>
constexpr int kProducerRegisters = kHeadDim == 128 ? 24 : 40;
template <int kHeadDim>
constexpr int kConsumerRegisters = kHeadDim == 128 ? 240 : 232;

// Named barriers: of both consumers, and of each.
constexpr int kBothConsumers = 1;
constexpr int kOneConsumer = 2;

template <int kHeadDim, BackwardStep kStep>
using SharedOf = BackwardShared<kHeadDim, is_specialised(kStep) && kHeadDim == 128 ? 2 : 1>;

// One warpgroup of those that multiply. kSpecialised: dq of a tile goes to a writer while the scores of the next are
// under way; else it is added before they begin.
template <int kHeadDim, BackwardStep kStep>
struct Consumer {
    static constexpr int kTile = kQueries<kHeadDim>;
    static constexpr bool kSpecialised = is_specialised(kStep);
    static constexpr int kParts = SharedOf<kHeadDim, kStep>::kPartsAtOnce;
    SharedOf<kHeadDim, kStep>& shared;
    const BackwardOperands& op;
    int index;
    int tiles = 0;  // done; it tells the place in all rings of two
    float dk[kHeadDim / 2] = {};
    float dv[kHeadDim / 2] = {};

    __device__ std::uint32_t own_keys() const { return index * kTileRows * kRowBytes; }

    // Whether there is a tile of this number; waits until it is known.
    __device__ bool await_tile(int number) {
        shared.full[number % 2].wait(number / 2 % 2);
        return shared.rows[number % 2].head >= 0;
    }
    __device__ void begin_scores(float (&s)[kTile / 2], int stage) {
        multiply_rows<kHeadDim, kPageTokens, kTile>(s, shared_address(shared.k) + own_keys(),
                                                    shared_address(shared.q[stage]));
    }

    // Sums up what the next tile gives. kSpecialised: `s` has its scores, and gets those of the tile after it; whether
    // there is one.
    __device__ bool take(float (&s)[kTile / 2]) {
        const int stage = tiles % 2;
        std::uint8_t* const ds_tile = shared.ds[stage];
        const TileRows<kHeadDim>& rows = shared.rows[stage];
        const std::uint32_t q = shared_address(shared.q[stage]), d_o = shared_address(shared.d_o[stage]);
        float dp[kTile / 2];
        std::uint32_t p[kTile / kDepth][4], ds[kTile / kDepth][4];
        if constexpr (!kSpecialised) {
            begin_scores(s, stage);
        }
        multiply_rows<kHeadDim, kPageTokens, kTile>(dp, shared_address(shared.v) + own_keys(), d_o);
        if constexpr (!kSpecialised) {
            wait_products<1>(s);
        }
        const bool masked = kTile == 64 && rows.masked;  // else there is no register for it
        const auto weigh_step = [&](int step) {
            weigh(s + 8 * step, step, rows, kTile == 64 ? masked : rows.masked, op.scale_log2, index * kTileRows);
        };
        const auto differentiate_step = [&](int step) { differentiate(dp + 8 * step, s + 8 * step, step, rows); };
        if constexpr (kTile == 64) {
            add_product<kHeadDim, kTile>(dv, p, d_o, [&](int step) {
                weigh_step(step);
                pack(p[step], s + 8 * step);
            });
            wait_products<1>(dp);
            add_product<kHeadDim, kTile>(dk, ds, q, [&](int step) {
                differentiate_step(step);
                pack(ds[step], dp + 8 * step);
            });
            store_keys(ds_tile, ds, index * kTileRows);
        } else {  // scores, dp and packed weights side by side would be more registers than there are
            for_steps<kTile / kDepth>(weigh_step);
            wait_products<0>(dp);
            for_steps<kTile / kDepth>(differentiate_step);
            pack(p, s);
            add_product<kHeadDim, kTile>(dv, p, d_o);
            pack(ds, dp);
            store_keys(ds_tile, ds, index * kTileRows);
            add_product<kHeadDim, kTile>(dk, ds, q);
        }
        fence_for_async_reads();
        if (!kSpecialised && threadIdx.x % kWarpgroup == 0) {
            wait_bulk_read();  // of the last tile's dq
        }
        wait_at(kBothConsumers, kConsumerThreads);
        float dq[kTileRows / 2];
        multiply_keys(dq, shared_address(ds_tile));
        wait_products<1>(dk, dv, p, ds);
        const DqPart part{rows.first_query, rows.head, rows.turn};
        __syncwarp();
        release(shared.empty[stage]);
        if constexpr (kSpecialised) {
            return send_under_scores(dq, part, s, 1 - stage);
        } else {
            wait_products<0>(dq);
            send(dq, part);
            return true;
        }
    }

    // dq is under way; goes out while the scores of the next tile are computed. Whether there is one.
    __device__ __forceinline__ bool send_under_scores(float (&dq)[kTileRows / 2], const DqPart& part,
                                                      float (&s)[kTile / 2], int next_stage) {
        const bool more = await_tile(tiles + 1);
        wait_products<0>(dq);
        begin_scores(s, next_stage);  // of no use if there is no more; ptxas serialises products begun in a branch
        send(dq, part);
        wait_products<0>(s);
        return more;
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

    // Stages dq of a tile and sees that it is added.
    __device__ void send(const float (&dq)[kTileRows / 2], const DqPart& part) {
        if constexpr (kSpecialised) {
            await_room();  // its loop also keeps the assembler from doing what follows among the products just begun
            store_queries(shared.dq[index][tiles % kParts], dq, op.scale);
            hand_over(part);
        } else {
            store_queries(shared.dq[index][0], dq, op.scale);
            fence_for_async_reads();
            wait_at(kOneConsumer + index, kWarpgroup);
            if (threadIdx.x % kWarpgroup == 0) {
                add_part<kHeadDim>(op, index, part.first_query, part.head, shared.dq[index][0]);
                commit_bulk();
            }
        }
    }
    __device__ void await_room() { shared.part_empty[index][tiles % kParts].wait(1 - tiles / kParts % 2); }
    __device__ void hand_over(const DqPart& part) {
        if (threadIdx.x % kWarpgroup == 0) {
            shared.part[index][tiles % kParts] = part;
        }
        fence_for_async_reads();
        __syncwarp();
        release(shared.part_full[index][tiles % kParts]);
    }

    // No product is under way from one round of a loop to the next, or ptxas would run all of them one by one.
    __device__ void take_all() {
        float s[kTile / 2];
        if constexpr (kSpecialised) {
            bool more = await_tile(0);
            begin_scores(s, 0);
            wait_products<0>(s);
            for (; more; ++tiles) {
                more = take(s);
            }
        } else {
            for (; await_tile(tiles); ++tiles) {
                take(s);
            }
        }
    }

    __device__ void run() {
        shared.kv_full.wait(0);
        take_all();
        const PagePlace place(op.args,
                              kStep == BackwardStep::kOrdered ? static_cast<unsigned>(shared.block) : blockIdx.x);
        const auto* first_touch = op.args.first_touch;
        const bool fresh = first_touch != nullptr && first_touch[place.page] != 0;
        if (fresh || tiles > 0) {
            const int first_key = index * kTileRows;
            write_keys<kHeadDim>(op.args.d_kv.k_slab, op, place.page, place.kv_head, first_key, fresh, dk, op.scale);
            write_keys<kHeadDim>(op.args.d_kv.v_slab, op, place.page, place.kv_head, first_key, fresh, dv, 1.0F);
        }
        if constexpr (kSpecialised) {
            await_room();
            hand_over({0, -1, 0});
        } else if (threadIdx.x % kWarpgroup == 0) {
            wait_bulk();
        }
    }
};

template <int kHeadDim, BackwardStep kStep>
__global__ void __launch_bounds__((kConsumers + 1) * kWarpgroup, 1)
    kernel(const __grid_constant__ BackwardOperands op) {
    constexpr bool kOrdered = kStep == BackwardStep::kOrdered;
    auto& shared = shared_memory<SharedOf<kHeadDim, kStep>>();
    if (threadIdx.x == 0) {
        shared.kv_full.init(1);
        for (int i = 0; i < shared.kStages; ++i) {
            shared.full[i].init(kWarp);
            shared.empty[i].init(kConsumerThreads / kWarp);
        }
        for (int i = 0; i < kConsumers * shared.kPartsAtOnce; ++i) {
            shared.part_full[i % kConsumers][i / kConsumers].init(kWarpgroup / kWarp);
            shared.part_empty[i % kConsumers][i / kConsumers].init(1);
        }
        fence_initialised();
        if (kOrdered) {
            shared.block = begun_before(op.turns + turns_of(op.args.tokens, op.args.query_heads));
        }
    }
    __syncthreads();
    const auto place = [&] { return PagePlace(op.args, kOrdered ? static_cast<unsigned>(shared.block) : blockIdx.x); };
    const int warpgroup = warpgroup_index();
    if (warpgroup == 0) {
        give_up_registers<kProducerRegisters<kHeadDim>>();
        // Known to be the same in a warp: else what a role holds for all its threads would take registers of each.
        const int warp = __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / kWarp, 0);
        if (warp == 0) {
            produce<kHeadDim, kOrdered>(shared, op, place());
        } else if (is_specialised(kStep) && warp <= kConsumers && threadIdx.x % kWarp == 0) {
            write_parts<kHeadDim, kOrdered>(shared, op, warp - 1);
        }
    } else {
        take_registers<kConsumerRegisters<kHeadDim>>();
        Consumer<kHeadDim, kStep>{shared, op, warpgroup - 1}.run();
    }
}

}  // namespace

template <int kHeadDim, BackwardStep kStep>
void launch_backward(const BackwardOperands& operands, cudaStream_t stream) {
    BackwardOperands op = operands;
    const AttentionBackward<BFloat16>& args = op.args;
    op.q = rows_map(args.q, args.tokens, args.query_heads, kHeadDim, kQueries<kHeadDim>);
    op.d_o = rows_map(args.d_o, args.tokens, args.query_heads, kHeadDim, kQueries<kHeadDim>);
    op.dq = rows_map<float>(args.dq, args.tokens, args.query_heads, kHeadDim, kTileRows);
    if (kStep == BackwardStep::kOrdered) {
        const std::int64_t turns = backward_turns(args.tokens, args.query_heads);
        cudaMemsetAsync(op.turns, 0, static_cast<std::size_t>(turns) * sizeof(*op.turns), stream);
        check_launch(kBackwardName);  // a refused memset is this thread's last error, too
    }
    const std::int64_t pages = (args.kv.tokens + kPageTokens - 1) / kPageTokens;
    launch_blocks<SharedOf<kHeadDim, kStep>>(kernel<kHeadDim, kStep>, pages * args.kv.kv_heads,
                                             (kConsumers + 1) * kWarpgroup, op, kBackwardName, stream);
}
#define OOMB_BACKWARD(head_dim)                                                                                 \
    template void launch_backward<head_dim, BackwardStep::kSimple>(const BackwardOperands&, cudaStream_t);      \
    template void launch_backward<head_dim, BackwardStep::kSpecialised>(const BackwardOperands&, cudaStream_t); \
    template void launch_backward<head_dim, BackwardStep::kOrdered>(const BackwardOperands&, cudaStream_t)
OOMB_BACKWARD(64);
OOMB_BACKWARD(128);
#undef OOMB_BACKWARD

}  // namespace oomb::kernels::cuda::hopper
