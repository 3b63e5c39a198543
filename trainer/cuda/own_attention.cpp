// Attention that merges in place on the CUDA backend: by our kernels for sm_90a, over lists of pages or, with
// --attention-kernels own, over all pages of a part. Forward adds to the fp32 output and log-sum-exp over the parts
// before, backward to the fp32 gradients of queries and pages.

#include "kernels/cuda/hopper/attention.hpp"
#include "kernels/cuda/hopper/walk.hpp"
#include "kernels/cuda/page_list.hpp"
#include "kernels/cuda/page_selection.hpp"
#include "runtime/core/error.hpp"
#include "trainer/cuda/attention_operands.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace oomb::trainer {

using schedule::Access;
using schedule::AttentionCost;
using enum schedule::RegionName;
namespace hopper = kernels::cuda::hopper;

static_assert(hopper::kPageTokens == kOwnKernelsPageTokens);

namespace {

template <class T, class Args>
bool fast_kernels_take([[maybe_unused]] const Args& args) {
    if constexpr (std::is_same_v<T, BFloat16>) {
        return hopper::takes(args);
    }
    return false;
}

// Every query sees all keys of the pages of its list.
template <class E>
kernels::AttentionMask mask_of(const AttentionCost& cost, const paging::PageView<E>& kv) {
    return cost.listed ? no_mask(kv)
                       : kernels::AttentionMask{.first_query = cost.first_query, .sliding_window = cost.sliding_window};
}

// A plan of own kernels has no room for others.
void require_lists(const schedule::Operation& operation) {
    require(!std::get<AttentionCost>(operation.cost).own_kernels,
            "{}: --attention-kernels own, but these operands would go to the plain kernels", to_text(operation.id));
}

}  // namespace

// Keys of the operation's window: all of the part's, or those of the pages that lists name.
template <class T>
std::int64_t CudaBackend<T>::window_tokens(const Issued& issued) const {
    return issued.lists ? std::ssize(issued.lists->pages) * plan_.run.page_tokens
                        : std::get<AttentionCost>(issued.operation.cost).keys;
}

// The workspace's list of frames is yet to be sent.
template <class T>
kernels::AttentionForward<T> CudaBackend<T>::forward_operands(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t before = row_in_chunk(issued), end = before + cost.queries;
    const std::int64_t width = model_.query_width(), heads = cost.query_heads;
    kernels::AttentionForward<T> args{.q = memory_->read<T>(issued, kQuery, end * width) + before * width,
                                      .kv = view_of<const T>(PageClass::kKv, window_tokens(issued), cost.first_key),
                                      .o_part = memory_->write<A>(issued, kOutputSum, end * width) + before * width,
                                      .lse_part = memory_->write<A>(issued, kLogSumExp, end * heads) + before * heads,
                                      .tokens = cost.queries,
                                      .query_heads = heads,
                                      .scale = scale_of(cost)};
    args.mask = mask_of(cost, args.kv);
    return args;
}

// Clears the gradient of queries that the operation is the first to meet.
template <class T>
kernels::AttentionBackward<T> CudaBackend<T>::backward_operands(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t before = row_in_chunk(issued), end = before + cost.queries;
    const std::int64_t width = model_.query_width(), heads = cost.query_heads, keys = window_tokens(issued);
    A* dq = memory_->write<A>(issued, kQueryGradient, end * width) + before * width;
    if (issued.operation.id.part == 0 || cost.listed) {
        OOMB_CUDA(cudaMemsetAsync(dq, 0, cost.queries * width * sizeof(A), stream()));
    }
    kernels::AttentionBackward<T> args{
        .q = memory_->read<T>(issued, kQuery, end * width) + before * width,
        .d_o = memory_->read<T>(issued, kOutputGradient, end * width) + before * width,
        .lse = memory_->read<A>(issued, kLogSumExp, end * heads) + before * heads,
        .delta = memory_->read<A>(issued, kDelta, end * heads) + before * heads,
        .kv = view_of<const T>(PageClass::kKv, keys, cost.first_key),
        .dq = dq,
        .d_kv = view_of<A>(PageClass::kKvGradient, keys, cost.first_key),
        .first_touch = reinterpret_cast<std::uint8_t*>(workspace(workspace_.first_touch)),
        .tokens = cost.queries,
        .query_heads = heads,
        .scale = scale_of(cost)};
    args.mask = mask_of(cost, args.kv);
    return args;
}

template <class T>
void CudaBackend<T>::attend_in_place(const Issued& issued) {
    const kernels::AttentionForward<T> args = forward_operands(issued);
    if (options_.plain_attention || !fast_kernels_take<T>(args)) {
        require_lists(issued.operation);
        attend_to_lists(issued, args);
        return;
    }
    if constexpr (std::is_same_v<T, BFloat16>) {
        send_frames(issued, PageClass::kKv, issued.grants[0].frames, {}, Access::kRead);
        hopper::ForwardOptions options{.merge = issued.operation.id.part != 0};
        if (issued.lists) {
            options.lists = {send_lists(issued), issued.lists->length};
        }
        hopper::attention_forward(args, options, stream());
    }
}

template <class T>
void CudaBackend<T>::backward_in_place(const Issued& issued) {
    const kernels::AttentionBackward<T> args = backward_operands(issued);
    if (options_.plain_attention || !fast_kernels_take<T>(args)) {
        require_lists(issued.operation);
        backward_of_lists(issued, args);
        return;
    }
    if constexpr (std::is_same_v<T, BFloat16>) {
        const paging::Grant& gradients = issued.grants[1];
        send_frames(issued, PageClass::kKv, issued.grants[0].frames, {}, Access::kRead);
        send_frames(issued, PageClass::kKvGradient, gradients.frames, gradients.first_touch, Access::kWrite);
        hopper::BackwardOptions options;
        if (issued.lists) {
            auto* offsets = reinterpret_cast<std::int32_t*>(workspace(workspace_.reader_offsets));
            auto* readers = reinterpret_cast<std::int32_t*>(workspace(workspace_.readers));
            const std::int64_t length = issued.lists->length;
            const std::int64_t query_pages = std::ssize(issued.lists->lists) / length;
            options.lists = {send_lists(issued), length};
            options.readers = {offsets, readers};
            kernels::cuda::invert_lists(
                {options.lists.pages, offsets, readers, query_pages, length, std::ssize(issued.lists->pages)},
                stream());
        }
        if (plan_.run.deterministic) {
            options.turns = reinterpret_cast<std::int32_t*>(workspace(workspace_.turns));
        }
        hopper::attention_backward(args, options, stream());
    }
}

// To the workspace: of each list's pages the places in the operation's window.
template <class T>
const std::int32_t* CudaBackend<T>::send_lists(const Issued& issued) {
    constexpr std::int64_t kNumber = sizeof(std::int32_t);
    const std::int64_t room = (workspace_.reader_offsets - workspace_.lists) / kNumber;
    const std::int64_t pages_room = (workspace_.readers - workspace_.reader_offsets) / kNumber;
    const std::int64_t entries = std::ssize(issued.lists->lists), pages = std::ssize(issued.lists->pages);
    require(entries <= room && pages < pages_room, "{}: {} entries of lists and {} pages, {} and {} are planned",
            to_text(issued.operation.id), entries, pages, room, pages_room - 1);
    auto* lists = reinterpret_cast<std::int32_t*>(workspace(workspace_.lists));
    kernels::cuda::write_page_list(places_of(*issued.lists), {}, lists, nullptr, stream());
    return lists;
}

#define OOMB_IN_PLACE(T)                                                                     \
    template kernels::AttentionForward<T> CudaBackend<T>::forward_operands(const Issued&);   \
    template kernels::AttentionBackward<T> CudaBackend<T>::backward_operands(const Issued&); \
    template std::int64_t CudaBackend<T>::window_tokens(const Issued&) const;                \
    template void CudaBackend<T>::attend_in_place(const Issued&);                            \
    template void CudaBackend<T>::backward_in_place(const Issued&);
template const std::int32_t* CudaBackend<BFloat16>::send_lists(const Issued&);
OOMB_IN_PLACE(BFloat16)
OOMB_IN_PLACE(float)

}  // namespace oomb::trainer
