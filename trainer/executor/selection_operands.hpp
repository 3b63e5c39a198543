#pragma once
// Operands of the selection of pages, and where lists lie on the host: the same on every device.

#include "kernels/page_selection.hpp"
#include "trainer/executor/planned_memory.hpp"

namespace oomb::trainer {

// `kv` has the operation's own pages.
template <class T>
kernels::PageMeans<T> page_means_operands(PlannedMemory& memory, const issue::IssuedOperation& issued,
                                          const paging::PageView<const T>& kv) {
    const std::int64_t width = kv.kv_heads * kv.head_dim;
    const std::int64_t first = kv.first_token / kv.page_tokens, count = kv.tokens / kv.page_tokens;
    T* means = memory.write<T>(issued, schedule::RegionName::kPageMeans, (first + count) * width);
    return {kv, means + first * width};
}

template <class T>
kernels::PageScores<T> page_scores_operands(PlannedMemory& memory, const schedule::Plan& plan,
                                            const issue::IssuedOperation& issued) {
    using enum schedule::RegionName;
    const ModelShape& model = plan.model;
    const std::int64_t rows = issued.operation.rows, page_tokens = plan.run.page_tokens;
    const std::int64_t history = issued.operation.first_row / page_tokens;
    const std::int64_t query_pages = schedule::divide_up(rows, page_tokens);
    return {.q = memory.read<T>(issued, kQuery, rows * model.query_width()),
            .means = memory.read<T>(issued, kPageMeans, history * model.kv_width()),
            .scores = memory.write<kernels::Accumulator<T>>(issued, kPageScores, query_pages * history),
            .tokens = rows,
            .page_tokens = page_tokens,
            .pages = history,
            .query_heads = model.query_heads,
            .kv_heads = model.kv_heads,
            .head_dim = model.head_dim,
            .scale = kernels::page_score_scale(model.head_dim)};
}

template <class A>
kernels::SelectPages<A> select_pages_operands(PlannedMemory& memory, const schedule::Plan& plan,
                                              const issue::IssuedOperation& issued) {
    using enum schedule::RegionName;
    const std::int64_t history = issued.operation.first_row / plan.run.page_tokens;
    const std::int64_t rows = schedule::divide_up(issued.operation.rows, plan.run.page_tokens);
    const std::int64_t count = plan.run.top_k;
    return {memory.read<A>(issued, kPageScores, rows * history),
            memory.write<std::int32_t>(issued, kSelectedPages, rows * count), rows, history, count};
}

// A slot of the lists at home holds those of a layer's query pages, from the first one that has a list on.
struct ListCopy {
    const std::int32_t* selected = nullptr;
    std::int32_t* home = nullptr;
    std::int64_t entries = 0;
};
inline ListCopy store_lists_operands(PlannedMemory& memory, const schedule::Plan& plan,
                                     const issue::IssuedOperation& issued) {
    using enum schedule::RegionName;
    const schedule::StepShape step(plan.model, plan.run);
    const std::int64_t count = plan.run.top_k;
    const std::int64_t entries = schedule::divide_up(issued.operation.rows, plan.run.page_tokens) * count;
    const std::int64_t first = (step.first_page(issued.operation.id.chunk) - step.first_listed_page()) * count;
    return {memory.read<std::int32_t>(issued, kSelectedPages, entries),
            memory.write<std::int32_t>(issued, kHostPageLists, first + entries) + first, entries};
}
// Those of the query pages [first, first + count).
inline std::vector<std::int32_t> stored_lists(const PlannedMemory& memory, const schedule::Plan& plan,
                                              std::int64_t layer, std::int64_t first, std::int64_t count) {
    const schedule::StepShape step(plan.model, plan.run);
    const std::int64_t slot_entries = region_of(plan.regions, schedule::RegionName::kHostPageLists).slot_bytes /
                                      static_cast<std::int64_t>(sizeof(std::int32_t));
    const auto* lists = memory.idle<std::int32_t>(schedule::RegionName::kHostPageLists) + layer * slot_entries +
                        (first - step.first_listed_page()) * plan.run.top_k;
    return {lists, lists + count * plan.run.top_k};
}

// `window` has the pages of the operation's request.
template <class T>
kernels::PageMass<T> page_mass_operands(PlannedMemory& memory, const schedule::Plan& plan,
                                        const issue::IssuedOperation& issued, const paging::PageView<const T>& window) {
    using enum schedule::RegionName;
    using A = kernels::Accumulator<T>;
    const ModelShape& model = plan.model;
    const std::int64_t rows = issued.operation.rows, page_tokens = plan.run.page_tokens;
    const std::int64_t history = issued.operation.first_row / page_tokens;
    A* mass = memory.write<A>(issued, kPageMass, schedule::divide_up(rows, page_tokens) * history);
    return {.q = memory.read<T>(issued, kQuery, rows * model.query_width()),
            .lse = memory.read<A>(issued, kLogSumExp, rows * model.query_heads),
            .kv = window,
            .mass = mass + window.first_token / page_tokens,
            .tokens = rows,
            .pages = history,
            .query_heads = model.query_heads,
            .scale = kernels::page_score_scale(model.head_dim)};
}

template <class A>
kernels::PageRecall<A> page_recall_operands(PlannedMemory& memory, const schedule::Plan& plan,
                                            const issue::IssuedOperation& issued) {
    using enum schedule::RegionName;
    const std::int64_t rows = issued.operation.rows, page_tokens = plan.run.page_tokens;
    const std::int64_t history = issued.operation.first_row / page_tokens;
    const std::int64_t entries = schedule::divide_up(rows, page_tokens) * history;
    const auto& budgets = plan.run.recall_budgets;
    const auto count = static_cast<std::int64_t>(budgets.size());
    auto* sums = memory.write<RecallSums>(issued, kRecall, plan.model.layers * count);
    return {.scores = memory.read<A>(issued, kPageScores, entries),
            .mass = memory.read<A>(issued, kPageMass, entries),
            .budgets = budgets.begin(),
            .sums = sums + issued.operation.id.layer * count,
            .count = count,
            .tokens = rows,
            .page_tokens = page_tokens,
            .pages = history,
            .query_heads = plan.model.query_heads};
}

}  // namespace oomb::trainer
