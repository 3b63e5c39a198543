// The forward kernel with roles: a producer warp that keeps pages coming, and warpgroups that multiply. The weights of
// a page are multiplied by its values while the softmax of the next page runs.
#include "kernels/cuda/hopper/forward.cuh"

namespace oomb::kernels::cuda::hopper {
namespace {

// Registers of a thread after roles are known: 65,536 in all, in steps of 8.
template <int kConsumers>
constexpr int kProducerRegisters = kConsumers == 2 ? 24 : 32;
template <int kConsumers>
constexpr int kConsumerRegisters = kConsumers == 2 ? 240 : 160;

template <int kHeadDim, int kConsumers>
using Shared = ForwardShared<kHeadDim, kConsumers * kTileRows>;

// One lane loads; the frame of the next page is read while the ring is full.
template <int kHeadDim, int kConsumers>
__device__ void produce(Shared<kHeadDim, kConsumers>& shared, const ForwardOperands& op, const TilePlace& place,
                        const Walk& walk) {
    constexpr std::uint32_t kBytes = tile_bytes(kPageTokens, kHeadDim);
    if (threadIdx.x % kWarpgroup != 0 || walk.count == 0) {
        return;
    }
    load_queries<kHeadDim, kConsumers * kTileRows>(shared.q, op, place, shared.q_full);
    const std::int64_t last_page = (op.args.kv.tokens - 1) / kPageTokens;
    RingPlace<Shared<kHeadDim, kConsumers>::kStages> ring;
    std::int32_t page = walk.page(0);
    std::int32_t frame = op.args.kv.frames[page];
    for (std::int32_t i = 0; i < walk.count; ++i, ring.advance()) {
        const std::int32_t next_page = walk.page(i + 1);
        const std::int32_t next_frame = op.args.kv.frames[next_page];
        const bool last = page == last_page;
        MemoryBarrier& k_full = shared.k_full[ring.stage];
        MemoryBarrier& v_full = shared.v_full[ring.stage];
        shared.k_empty[ring.stage].wait(ring.parity ^ 1);
        k_full.arrive_expecting(kBytes);
        load_page_tile<kHeadDim>(shared.k[ring.stage], last ? op.pages.last_k : op.pages.k, place.kv_head, frame,
                                 k_full);
        shared.v_empty[ring.stage].wait(ring.parity ^ 1);
        v_full.arrive_expecting(kBytes);
        load_page_tile<kHeadDim>(shared.v[ring.stage], last ? op.pages.last_v : op.pages.v, place.kv_head, frame,
                                 v_full);
        page = next_page;
        frame = next_frame;
    }
}

// Products of page i and softmax of page i overlap with the values of page i - 1. `s`: scores, then weights of page i.
template <int kHeadDim, int kConsumers>
__device__ void consume(Shared<kHeadDim, kConsumers>& shared, const ForwardOperands& op, const TilePlace& place,
                        const Walk& walk, int consumer) {
    constexpr int kRows = kConsumers * kTileRows;
    const std::int64_t first_row =
        place.first_query + consumer * kTileRows + accumulator_row(threadIdx.x % kWarpgroup, 0);
    const RowKeys row_keys(op.args, first_row);
    const std::uint32_t q = shared_address(shared.q) + consumer * kTileRows * kRowBytes;
    float o[kHeadDim / 2] = {};
    OnlineSoftmax softmax;
    if (walk.count > 0) {
        RingPlace<Shared<kHeadDim, kConsumers>::kStages> keys, values;
        float s[kScores], rescale[2];
        std::uint32_t weights[kWeightSteps][4];
        std::int32_t page = walk.page(0);
        const auto await_keys = [&](std::int32_t i) {
            if (i < walk.count) {
                shared.k_full[keys.stage].wait(keys.parity);
            }
        };
        shared.q_full.wait(0);
        await_keys(0);
        multiply_keys<kHeadDim, kRows>(s, q, shared_address(shared.k[0]));
        wait_products<0>(s);
        release(shared.k_empty[0]);
        keys.advance();
        if (!walk.keys.all_see(page)) {
            row_keys.hide(s, page);
        }
        softmax.weigh(s, op.scale_log2, rescale);  // o is 0
        pack(weights, s);
        await_keys(1);
        for (std::int32_t i = 1; i < walk.count; ++i, values.advance()) {
            page = walk.page(i);
            multiply_keys<kHeadDim, kRows>(s, q, shared_address(shared.k[keys.stage]));
            shared.v_full[values.stage].wait(values.parity);
            multiply_values<kHeadDim>(o, weights, shared_address(shared.v[values.stage]));
            wait_products<1>(s);
            release(shared.k_empty[keys.stage]);
            keys.advance();
            if (!walk.keys.all_see(page)) {
                row_keys.hide(s, page);
            }
            softmax.weigh(s, op.scale_log2, rescale);
            pin(s);
            await_keys(i + 1);  // its loop also keeps the assembler from moving the softmax behind the wait below
            wait_products<0>(o, weights);
            release(shared.v_empty[values.stage]);
            rescale_rows(o, rescale);
            pack(weights, s);
        }
        shared.v_full[values.stage].wait(values.parity);
        multiply_values<kHeadDim>(o, weights, shared_address(shared.v[values.stage]));
        wait_products<0>(o);
    }
    write_rows<kHeadDim>(op, place.head, first_row, o, softmax);
}

template <int kHeadDim, int kConsumers>
__global__ void __launch_bounds__((kConsumers + 1) * kWarpgroup, 1) kernel(const __grid_constant__ ForwardOperands op) {
    auto& shared = shared_memory<Shared<kHeadDim, kConsumers>>();
    if (threadIdx.x == 0) {
        shared.q_full.init(1);
        for (int i = 0; i < shared.kStages; ++i) {
            shared.k_full[i].init(1);
            shared.v_full[i].init(1);
            shared.k_empty[i].init(kConsumers * kWarpgroup / kWarp);
            shared.v_empty[i].init(kConsumers * kWarpgroup / kWarp);
        }
        fence_initialised();
    }
    __syncthreads();
    const int warpgroup = warpgroup_index();
    if (warpgroup == 0) {
        give_up_registers<kProducerRegisters<kConsumers>>();
        if (threadIdx.x < kWarp) {
            const TilePlace place(op.args, kConsumers * kTileRows);
            produce<kHeadDim, kConsumers>(shared, op, place, Walk(op, place.first_query, kConsumers * kTileRows));
        }
    } else {
        take_registers<kConsumerRegisters<kConsumers>>();
        const TilePlace place(op.args, kConsumers * kTileRows);
        consume<kHeadDim, kConsumers>(shared, op, place, Walk(op, place.first_query, kConsumers * kTileRows),
                                      warpgroup - 1);
    }
}

template <int kHeadDim, int kConsumers>
void launch(const ForwardOperands& op, cudaStream_t stream) {
    launch_tiles<Shared<kHeadDim, kConsumers>>(kernel<kHeadDim, kConsumers>, kConsumers * kTileRows,
                                               (kConsumers + 1) * kWarpgroup, op, stream);
}

}  // namespace

template <int kHeadDim>
void launch_specialised(const ForwardOperands& op, cudaStream_t stream) {
    if (kHeadDim == 64 && op.lists.pages == nullptr) {
        launch<kHeadDim, kHeadDim == 64 ? 3 : 2>(op, stream);
    } else {
        launch<kHeadDim, 2>(op, stream);
    }
}
template void launch_specialised<64>(const ForwardOperands&, cudaStream_t);
template void launch_specialised<128>(const ForwardOperands&, cudaStream_t);

}  // namespace oomb::kernels::cuda::hopper
