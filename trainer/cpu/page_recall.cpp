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

// In fp32 and fp64 by the library, a product per tile of queries and query head; in bf16 by our kernel, the definition
// of both.
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
        const std::int64_t each = model_.kv_width() + std::min(rows, schedule::kCpuQueryTile);
        mass_by_library(args, memory_.template write<T>(issued, kAttentionScratch, kv.tokens * each));
    } else {
        kernels::cpu::page_mass<T>(args);
    }
}

// `scratch`: the keys of the window side by side, scores of a tile of queries of one head over all of them.
template <class T>
void CpuBackend<T>::mass_by_library(const kernels::PageMass<T>& args, T* scratch) {
    const std::int64_t dim = args.kv.head_dim, heads = args.query_heads, page_tokens = args.kv.page_tokens;
    const std::int64_t group = heads / args.kv.kv_heads, width = args.kv.kv_heads * dim, keys = args.kv.tokens;
    for (std::int64_t key = 0; key < keys; key += page_tokens) {
        std::copy_n(args.kv.k_row(key, 0), page_tokens * width, scratch + key * width);
    }
    T* scores = scratch + keys * width;
    for (std::int64_t row = 0; row < args.tokens; row += page_tokens) {
        std::fill_n(args.mass + row / page_tokens * args.pages, keys / page_tokens, T{0});
    }
    for (std::int64_t first = 0; first < args.tokens; first += schedule::kCpuQueryTile) {
        const std::int64_t rows = std::min(schedule::kCpuQueryTile, args.tokens - first);
        auto tile = matrix(scores, rows, keys);
        for (std::int64_t head = 0; head < heads; ++head) {
            const auto queries = matrix(args.q + (first * heads + head) * dim, rows, dim, heads * dim);
            at::mm_out(tile, queries, matrix(scratch + head / group * dim, keys, dim, width).t());
            tile.mul_(args.scale).sub_(matrix(args.lse + first * heads + head, rows, 1, heads)).exp_();
            for (std::int64_t row = 0; row < rows; ++row) {
                T* sums = args.mass + (first + row) / page_tokens * args.pages;
                for (std::int64_t key = 0; key < keys; key += page_tokens) {
                    const T* weights = scores + row * keys + key;
                    sums[key / page_tokens] +=
                        kernels::cpu::sum_in_lanes<T>(page_tokens, [=](std::int64_t i) { return weights[i]; });
                }
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
