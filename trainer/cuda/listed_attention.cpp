// Attention over lists of pages by the plain kernels, one query page after another: what our kernels for sm_90a do not
// take (own_attention.cpp).

#include <algorithm>
#include <utility>

#include "kernels/cuda/attention.hpp"
#include "trainer/cuda/attention_operands.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace oomb::trainer {

using schedule::Access;
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

}  // namespace

// `args`: of all query pages, without a list of frames.
template <class T>
void CudaBackend<T>::attend_to_lists(const Issued& issued, kernels::AttentionForward<T> args) {
    A *o = args.o_part, *lse = args.lse_part;
    std::byte* scratch = memory_->write<std::byte>(issued, kAttentionScratch, scratch_.total_bytes);
    args.o_part = reinterpret_cast<A*>(scratch + scratch_.output);
    args.lse_part = memory_->write<A>(issued, kLogSumExpPart, args.tokens * args.query_heads);
    send_frames(issued, PageClass::kKv, of_entries(issued.grants[0].frames, places_of(*issued.lists)), {},
                Access::kRead);
    for_each_list(issued, plan_.run.page_tokens,
                  [&](const ListedRows& part) { kernels::cuda::attention_forward<T>(part_of(args, part), stream()); });
    kernels::cuda::attention_merge<A, A>({.o = o,
                                          .lse = lse,
                                          .o_part = args.o_part,
                                          .lse_part = args.lse_part,
                                          .tokens = args.tokens,
                                          .heads = args.query_heads,
                                          .head_dim = model_.head_dim},
                                         stream());
}

template <class T>
void CudaBackend<T>::backward_of_lists(const Issued& issued, const kernels::AttentionBackward<T>& args) {
    const std::vector<std::int32_t> places = places_of(*issued.lists);
    const paging::Grant& gradients = issued.grants[1];
    send_frames(issued, PageClass::kKv, of_entries(issued.grants[0].frames, places), {}, Access::kRead);
    send_frames(issued, PageClass::kKvGradient, of_entries(gradients.frames, places),
                first_entries(gradients.first_touch, places), Access::kWrite);
    for_each_list(issued, plan_.run.page_tokens,
                  [&](const ListedRows& part) { kernels::cuda::attention_backward<T>(part_of(args, part), stream()); });
}

#define OOMB_LISTED_ATTENTION(T)                                                                \
    template void CudaBackend<T>::attend_to_lists(const Issued&, kernels::AttentionForward<T>); \
    template void CudaBackend<T>::backward_of_lists(const Issued&, const kernels::AttentionBackward<T>&);
OOMB_LISTED_ATTENTION(BFloat16)
OOMB_LISTED_ATTENTION(float)

}  // namespace oomb::trainer
