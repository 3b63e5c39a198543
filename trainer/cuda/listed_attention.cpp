// Attention over lists of pages on the CUDA backend, merged into the result over the own chunk: by the kernels for
// sm_90a where they take the operands, all query pages of a group in one launch; else by the plain kernels, one query
// page after another.

#include <algorithm>
#include <utility>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/hopper/attention.hpp"
#include "kernels/cuda/page_list.hpp"
#include "kernels/cuda/page_selection.hpp"
#include "runtime/core/error.hpp"
#include "trainer/cuda/attention_operands.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace oomb::trainer {

using schedule::Access;
using schedule::AttentionCost;
using enum schedule::RegionName;

namespace {

// Entry i of the lists becomes what the grant says of its page.
template <class E>
std::vector<E> of_entries(const std::vector<E>& of_grant, const std::vector<std::int32_t>& places) {
    std::vector<E> chosen(places.size());
    std::transform(places.begin(), places.end(), chosen.begin(), [&](std::int32_t place) { return of_grant[place]; });
    return chosen;
}

// The same of pages that hold nothing yet: each is written for its first entry, and added to for all others.
std::vector<std::uint8_t> first_entries(std::vector<std::uint8_t> untouched, const std::vector<std::int32_t>& places) {
    std::vector<std::uint8_t> first(places.size());
    std::transform(places.begin(), places.end(), first.begin(),
                   [&](std::int32_t place) { return std::exchange(untouched[place], std::uint8_t{0}); });
    return first;
}

// Queries of a call that read the pages [first_page, first_page + pages) of its view, all of them.
struct ListedRows {
    std::int64_t first = 0, rows = 0;
    std::int64_t first_page = 0, pages = 0;
};

// Every query sees every key.
template <class E>
kernels::AttentionMask no_mask(const paging::PageView<E>& kv) {
    return {.first_query = kv.first_token + kv.tokens};
}

template <class E>
paging::PageView<E> pages_of(paging::PageView<E> view, const ListedRows& part) {
    view.frames += part.first_page;
    view.tokens = part.pages * view.page_tokens;
    return view;
}

// The operands of one query page with its list.
template <class T>
kernels::AttentionForward<T> part_of(kernels::AttentionForward<T> args, const ListedRows& part) {
    const std::int64_t heads = part.first * args.query_heads, elements = heads * args.kv.head_dim;
    args.q += elements;
    args.o_part += elements;
    args.lse_part += heads;
    args.kv = pages_of(args.kv, part);
    args.tokens = part.rows;
    args.mask = no_mask(args.kv);
    return args;
}
template <class T>
kernels::AttentionBackward<T> part_of(kernels::AttentionBackward<T> args, const ListedRows& part) {
    const std::int64_t heads = part.first * args.query_heads, elements = heads * args.kv.head_dim;
    args.q += elements;
    args.d_o += elements;
    args.dq += elements;
    args.lse += heads;
    args.delta += heads;
    args.kv = pages_of(args.kv, part);
    args.d_kv = pages_of(args.d_kv, part);
    args.first_touch += part.first_page;
    args.tokens = part.rows;
    args.mask = no_mask(args.kv);
    return args;
}

// visit(rows of a query page and its list).
template <class Visit>
void for_each_list(const issue::IssuedOperation& issued, std::int64_t page_tokens, const Visit& visit) {
    const std::int64_t rows = issued.operation.rows, length = issued.lists->length;
    for (std::int64_t first = 0; first < rows; first += page_tokens) {
        visit(ListedRows{first, std::min(page_tokens, rows - first), first / page_tokens * length, length});
    }
}

template <class T, class Args>
bool fast_kernels_take([[maybe_unused]] const Args& args) {
    if constexpr (std::is_same_v<T, BFloat16>) {
        return kernels::cuda::hopper::takes(args);
    }
    return false;
}

}  // namespace

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

template <class T>
void CudaBackend<T>::attend_to_lists(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t before = row_in_chunk(issued), end = before + cost.queries, width = model_.query_width();
    const std::int64_t heads = cost.query_heads, pages = std::ssize(issued.lists->pages);
    A* o = memory_->write<A>(issued, kOutputSum, end * width) + before * width;
    A* lse = memory_->write<A>(issued, kLogSumExp, end * heads) + before * heads;
    kernels::AttentionForward<T> args{
        .q = memory_->read<T>(issued, kQuery, end * width) + before * width,
        .kv = view_of<const T>(PageClass::kKv, pages * plan_.run.page_tokens, cost.first_key),
        .o_part = o,
        .lse_part = lse,
        .tokens = cost.queries,
        .query_heads = heads,
        .scale = scale_of(cost)};
    args.mask = no_mask(args.kv);
    const std::vector<std::int32_t>& frames = issued.grants[0].frames;
    if (!options_.plain_attention && fast_kernels_take<T>(args)) {
        if constexpr (std::is_same_v<T, BFloat16>) {
            send_frames(issued, PageClass::kKv, frames, {}, Access::kRead);
            kernels::cuda::hopper::attention_forward(
                args, {.lists = {send_lists(issued), issued.lists->length}, .merge = true}, stream());
        }
        return;
    }
    std::byte* scratch = memory_->write<std::byte>(issued, kAttentionScratch, scratch_.total_bytes);
    args.o_part = reinterpret_cast<A*>(scratch + scratch_.output);
    args.lse_part = memory_->write<A>(issued, kLogSumExpPart, cost.queries * heads);
    send_frames(issued, PageClass::kKv, of_entries(frames, places_of(*issued.lists)), {}, Access::kRead);
    for_each_list(issued, plan_.run.page_tokens,
                  [&](const ListedRows& part) { kernels::cuda::attention_forward<T>(part_of(args, part), stream()); });
    kernels::cuda::attention_merge<A, A>({.o = o,
                                          .lse = lse,
                                          .o_part = args.o_part,
                                          .lse_part = args.lse_part,
                                          .tokens = cost.queries,
                                          .heads = heads,
                                          .head_dim = model_.head_dim},
                                         stream());
}

// A group is the first to meet its queries: its part of their gradient is written, not added.
template <class T>
void CudaBackend<T>::backward_of_lists(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t before = row_in_chunk(issued), end = before + cost.queries, width = model_.query_width();
    const std::int64_t heads = cost.query_heads, length = issued.lists->length;
    const std::int64_t pages = std::ssize(issued.lists->pages), tokens = pages * plan_.run.page_tokens;
    const paging::Grant& keys = issued.grants[0];
    const paging::Grant& gradients = issued.grants[1];
    A* dq = memory_->write<A>(issued, kQueryGradient, end * width) + before * width;
    OOMB_CUDA(cudaMemsetAsync(dq, 0, cost.queries * width * sizeof(A), stream()));
    kernels::AttentionBackward<T> args{
        .q = memory_->read<T>(issued, kQuery, end * width) + before * width,
        .d_o = memory_->read<T>(issued, kOutputGradient, end * width) + before * width,
        .lse = memory_->read<A>(issued, kLogSumExp, end * heads) + before * heads,
        .delta = memory_->read<A>(issued, kDelta, end * heads) + before * heads,
        .kv = view_of<const T>(PageClass::kKv, tokens, cost.first_key),
        .dq = dq,
        .d_kv = view_of<A>(PageClass::kKvGradient, tokens, cost.first_key),
        .first_touch = reinterpret_cast<std::uint8_t*>(workspace(workspace_.first_touch)),
        .tokens = cost.queries,
        .query_heads = heads,
        .scale = scale_of(cost)};
    args.mask = no_mask(args.kv);
    if (!options_.plain_attention && fast_kernels_take<T>(args)) {
        if constexpr (std::is_same_v<T, BFloat16>) {
            send_frames(issued, PageClass::kKv, keys.frames, {}, Access::kRead);
            send_frames(issued, PageClass::kKvGradient, gradients.frames, gradients.first_touch, Access::kWrite);
            auto* offsets = reinterpret_cast<std::int32_t*>(workspace(workspace_.reader_offsets));
            auto* readers = reinterpret_cast<std::int32_t*>(workspace(workspace_.readers));
            const std::int64_t query_pages = std::ssize(issued.lists->lists) / length;
            const std::int32_t* lists = send_lists(issued);
            kernels::cuda::invert_lists({lists, offsets, readers, query_pages, length, pages}, stream());
            kernels::cuda::hopper::BackwardOptions options{.readers = {offsets, readers}};
            if (plan_.run.deterministic) {
                options.turns = reinterpret_cast<std::int32_t*>(workspace(workspace_.turns));
                options.lists = {lists, length};
            }
            kernels::cuda::hopper::attention_backward(args, options, stream());
        }
        return;
    }
    const std::vector<std::int32_t> places = places_of(*issued.lists);
    send_frames(issued, PageClass::kKv, of_entries(keys.frames, places), {}, Access::kRead);
    send_frames(issued, PageClass::kKvGradient, of_entries(gradients.frames, places),
                first_entries(gradients.first_touch, places), Access::kWrite);
    for_each_list(issued, plan_.run.page_tokens,
                  [&](const ListedRows& part) { kernels::cuda::attention_backward<T>(part_of(args, part), stream()); });
}

#define OOMB_LISTED_ATTENTION(T)                                  \
    template void CudaBackend<T>::attend_to_lists(const Issued&); \
    template void CudaBackend<T>::backward_of_lists(const Issued&);
template const std::int32_t* CudaBackend<BFloat16>::send_lists(const Issued&);
OOMB_LISTED_ATTENTION(BFloat16)
OOMB_LISTED_ATTENTION(float)

}  // namespace oomb::trainer
