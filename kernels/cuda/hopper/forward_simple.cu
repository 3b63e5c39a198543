// The forward kernel without roles: all warpgroups do the same, a page at a time.
#include "kernels/cuda/hopper/forward.cuh"

namespace oomb::kernels::cuda::hopper {
namespace {

constexpr int kWarpgroups = 2;
constexpr int kRows = kWarpgroups * kTileRows;

template <int kHeadDim>
__device__ void load_pages(ForwardShared<kHeadDim, kRows>& shared, int stage, const ForwardOperands& op, int kv_head,
                           std::int32_t page) {
    const bool last = page == (op.args.kv.tokens - 1) / kPageTokens;
    const std::int32_t frame = op.args.kv.frames[page];
    MemoryBarrier& full = shared.k_full[stage];
    full.arrive_expecting(2 * tile_bytes(kPageTokens, kHeadDim));
    load_page_tile<kHeadDim>(shared.k[stage], last ? op.pages.last_k : op.pages.k, kv_head, frame, full);
    load_page_tile<kHeadDim>(shared.v[stage], last ? op.pages.last_v : op.pages.v, kv_head, frame, full);
}

template <int kHeadDim>
__global__ void __launch_bounds__(kWarpgroups* kWarpgroup, 1) kernel(const __grid_constant__ ForwardOperands op) {
    using Shared = ForwardShared<kHeadDim, kRows>;
    auto& shared = shared_memory<Shared>();
    const TilePlace place(op.args, kRows);
    const Walk walk(op, place.first_query, kRows);
    const bool loads = threadIdx.x == 0;
    if (loads) {
        shared.q_full.init(1);
        for (auto& barrier : shared.k_full) {
            barrier.init(1);
        }
        fence_initialised();
    }
    __syncthreads();
    if (loads && walk.count > 0) {
        load_queries<kHeadDim, kRows>(shared.q, op, place, shared.q_full);
        for (int i = 0; i < Shared::kStages && i < walk.count; ++i) {
            load_pages<kHeadDim>(shared, i, op, place.kv_head, walk.page(i));
        }
    }
    const int warpgroup = warpgroup_index();
    const std::int64_t first_row =
        place.first_query + warpgroup * kTileRows + accumulator_row(threadIdx.x % kWarpgroup, 0);
    const RowKeys row_keys(op.args, first_row);
    const std::uint32_t q = shared_address(shared.q) + warpgroup * kTileRows * kRowBytes;
    float o[kHeadDim / 2] = {};
    OnlineSoftmax softmax;
    if (walk.count > 0) {
        shared.q_full.wait(0);
    }
    RingPlace<Shared::kStages> ring;
    for (std::int32_t i = 0; i < walk.count; ++i, ring.advance()) {
        shared.k_full[ring.stage].wait(ring.parity);
        float s[kScores];
        multiply_keys<kHeadDim, kRows>(s, q, shared_address(shared.k[ring.stage]));
        wait_products<0>(s);
        const std::int32_t page = walk.page(i);
        if (!walk.keys.all_see(page)) {
            row_keys.hide(s, page);
        }
        float rescale[2];
        softmax.weigh(s, op.scale_log2, rescale);
        rescale_rows(o, rescale);
        std::uint32_t weights[kWeightSteps][4];
        pack(weights, s);
        multiply_values<kHeadDim>(o, weights, shared_address(shared.v[ring.stage]));
        wait_products<0>(o);
        __syncthreads();  // all have read the stage
        if (loads && i + Shared::kStages < walk.count) {
            load_pages<kHeadDim>(shared, ring.stage, op, place.kv_head, walk.page(i + Shared::kStages));
        }
    }
    write_rows<kHeadDim>(op, place.head, first_row, o, softmax);
}

}  // namespace

template <int kHeadDim>
void launch_simple(const ForwardOperands& op, cudaStream_t stream) {
    launch_tiles<ForwardShared<kHeadDim, kRows>>(kernel<kHeadDim>, kRows, kWarpgroups * kWarpgroup, op, stream);
}
template void launch_simple<64>(const ForwardOperands&, cudaStream_t);
template void launch_simple<128>(const ForwardOperands&, cudaStream_t);

}  // namespace oomb::kernels::cuda::hopper
