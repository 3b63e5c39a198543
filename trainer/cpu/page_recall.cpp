// Recall of the CPU backend: the attention that every page before the chunk gets, and how much of it the best ones
// cover.

#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/page_selection.hpp"
#include "runtime/schedule/region_sizes.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/cpu/matrix.hpp"

namespace oomb::trainer {

using schedule::Access;
using enum schedule::RegionName;

// By the library one product per page of queries, page of keys and query head, in fp32 and fp64; in bf16 by our kernel,
// which is the definition of both.
template <class T>
void CpuBackend<T>::page_mass(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, page_tokens = plan_.run.page_tokens, heads = model_.query_heads;
    const std::int64_t history = issued.operation.first_row / page_tokens;
    const std::int64_t first_page = issued.operation.requests[0].pages.first;
    const std::int64_t window_pages = issued.operation.requests[0].pages.count;
    const T* q = memory_.template read<T>(issued, kQuery, rows * model_.query_width());
    const A* lse = memory_.template read<A>(issued, kLogSumExp, rows * heads);
    A* mass =
        memory_.template write<A>(issued, kPageMass, schedule::divide_up(rows, page_tokens) * history) + first_page;
    const auto kv = page_view<const T>(issued, 0, first_page * page_tokens, window_pages * page_tokens);
    const kernels::PageMass<T> args{.q = q,
                                    .lse = lse,
                                    .kv = kv,
                                    .mass = mass,
                                    .tokens = rows,
                                    .pages = history,
                                    .query_heads = heads,
                                    .scale = kernels::page_score_scale(model_.head_dim)};
    if constexpr (std::is_same_v<T, A>) {
        const std::int64_t tile = std::min({rows, page_tokens, schedule::kCpuQueryTile});
        mass_by_library(args, memory_.template write<T>(issued, kAttentionScratch, tile * page_tokens));
    } else {
        kernels::cpu::page_mass<T>(args);
    }
}

// `scratch`: scores of a tile of queries of one head over one page.
template <class T>
void CpuBackend<T>::mass_by_library(const kernels::PageMass<T>& args, T* scratch) {
    const std::int64_t dim = args.kv.head_dim, heads = args.query_heads, page_tokens = args.kv.page_tokens;
    const std::int64_t group = heads / args.kv.kv_heads, window_pages = args.kv.tokens / page_tokens;
    const std::int64_t most_rows = std::min(page_tokens, schedule::kCpuQueryTile);
    for (std::int64_t first = 0, rows = 0; first < args.tokens; first += rows) {
        const std::int64_t query_page = first / page_tokens;
        rows = std::min({most_rows, args.tokens - first, (query_page + 1) * page_tokens - first});
        T* sums = args.mass + query_page * args.pages;
        if (first == query_page * page_tokens) {
            std::fill_n(sums, window_pages, T{0});
        }
        auto scores = matrix(scratch, rows, page_tokens);
        for (std::int64_t head = 0; head < heads; ++head) {
            const auto queries = matrix(args.q + (first * heads + head) * dim, rows, dim, heads * dim);
            const auto lse = matrix(args.lse + first * heads + head, rows, 1, heads);
            for (std::int64_t page = 0; page < window_pages; ++page) {
                const auto keys =
                    matrix(args.kv.k_row(page * page_tokens, head / group), page_tokens, dim, args.kv.kv_heads * dim);
                at::mm_out(scores, queries, keys.t());
                scores.mul_(args.scale).sub_(lse).exp_();
                sums[page] +=
                    kernels::cpu::sum_in_lanes<T>(rows * page_tokens, [=](std::int64_t i) { return scratch[i]; });
            }
        }
    }
}

template <class T>
void CpuBackend<T>::page_recall(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, page_tokens = plan_.run.page_tokens;
    const std::int64_t history = issued.operation.first_row / page_tokens;
    const std::int64_t entries = schedule::divide_up(rows, page_tokens) * history;
    const auto& budgets = plan_.run.recall_budgets;
    const auto count = static_cast<std::int64_t>(budgets.size());
    auto* sums = memory_.template write<RecallSums>(issued, kRecall, model_.layers * count);
    kernels::cpu::page_recall<A>({.scores = memory_.template read<A>(issued, kPageScores, entries),
                                  .mass = memory_.template read<A>(issued, kPageMass, entries),
                                  .budgets = budgets.begin(),
                                  .sums = sums + issued.operation.id.layer * count,
                                  .count = count,
                                  .tokens = rows,
                                  .page_tokens = page_tokens,
                                  .pages = history,
                                  .query_heads = model_.query_heads});
}

#define OOMB_PAGE_RECALL(T)                                \
    template void CpuBackend<T>::page_mass(const Issued&); \
    template void CpuBackend<T>::page_recall(const Issued&);
OOMB_PAGE_RECALL(BFloat16)
OOMB_PAGE_RECALL(float)
OOMB_PAGE_RECALL(double)
template void CpuBackend<float>::mass_by_library(const kernels::PageMass<float>&, float*);
template void CpuBackend<double>::mass_by_library(const kernels::PageMass<double>&, double*);

}  // namespace oomb::trainer
