// Top-K pages of the CPU backend: means, scores, lists, and the lists' way to the issuer.

#include "kernels/cpu/page_selection.hpp"

#include <algorithm>

#include "trainer/cpu/cpu_backend.hpp"

namespace oomb::trainer {

using schedule::Engine;
using schedule::StepShape;
using enum schedule::RegionName;

template <class T>
void CpuBackend<T>::page_means(const Issued& issued) {
    const auto pages = page_view<const T>(issued, 0, issued.operation.first_row, issued.operation.rows);
    const std::int64_t width = model_.kv_width();
    const std::int64_t first = pages.first_token / pages.page_tokens, count = pages.tokens / pages.page_tokens;
    T* means = memory_.template write<T>(issued, kPageMeans, (first + count) * width);
    kernels::cpu::page_means<T>({pages, means + first * width});
}

template <class T>
void CpuBackend<T>::page_scores(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, page_tokens = plan_.run.page_tokens;
    const std::int64_t history = issued.operation.first_row / page_tokens;
    const std::int64_t query_pages = schedule::divide_up(rows, page_tokens);
    kernels::cpu::page_scores<T>({.q = memory_.template read<T>(issued, kQuery, rows * model_.query_width()),
                                  .means = memory_.template read<T>(issued, kPageMeans, history * model_.kv_width()),
                                  .scores = memory_.template write<A>(issued, kPageScores, query_pages * history),
                                  .tokens = rows,
                                  .page_tokens = page_tokens,
                                  .pages = history,
                                  .query_heads = model_.query_heads,
                                  .kv_heads = model_.kv_heads,
                                  .head_dim = model_.head_dim,
                                  .scale = kernels::page_score_scale(model_.head_dim)});
}

template <class T>
void CpuBackend<T>::select_pages(const Issued& issued) {
    const std::int64_t history = issued.operation.first_row / plan_.run.page_tokens;
    const std::int64_t rows = schedule::divide_up(issued.operation.rows, plan_.run.page_tokens);
    const std::int64_t count = plan_.run.top_k;
    kernels::cpu::select_pages<A>({memory_.template read<A>(issued, kPageScores, rows * history),
                                   memory_.template write<std::int32_t>(issued, kSelectedPages, rows * count), rows,
                                   history, count});
}

// A slot of the lists at home holds those of a layer's query pages, from the first one that has a list on.
template <class T>
void CpuBackend<T>::store_lists(const Issued& issued) {
    const StepShape step(model_, plan_.run);
    const std::int64_t count = plan_.run.top_k;
    const std::int64_t rows = schedule::divide_up(issued.operation.rows, plan_.run.page_tokens);
    const std::int64_t first = step.first_page(issued.operation.id.chunk) - step.first_listed_page();
    const auto* selected = memory_.template read<std::int32_t>(issued, kSelectedPages, rows * count);
    auto* home = memory_.template write<std::int32_t>(issued, kHostPageLists, (first + rows) * count);
    std::copy_n(selected, rows * count, home + first * count);
}

template <class T>
std::vector<std::int32_t> CpuBackend<T>::page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                                    issue::Ticket stored) {
    queues_->wait_for(Engine::kDeviceToHost, stored);
    const StepShape step(model_, plan_.run);
    const std::int64_t slot_entries =
        region_of(plan_.regions, kHostPageLists).slot_bytes / static_cast<std::int64_t>(sizeof(std::int32_t));
    const auto* lists = memory_.template idle<std::int32_t>(kHostPageLists) + layer * slot_entries +
                        (first - step.first_listed_page()) * plan_.run.top_k;
    return {lists, lists + count * plan_.run.top_k};
}

#define OOMB_PAGE_SELECTION(T)                                                                             \
    template void CpuBackend<T>::page_means(const Issued&);                                                \
    template void CpuBackend<T>::page_scores(const Issued&);                                               \
    template void CpuBackend<T>::select_pages(const Issued&);                                              \
    template void CpuBackend<T>::store_lists(const Issued&);                                               \
    template std::vector<std::int32_t> CpuBackend<T>::page_lists(std::int64_t, std::int64_t, std::int64_t, \
                                                                 issue::Ticket);
OOMB_PAGE_SELECTION(BFloat16)
OOMB_PAGE_SELECTION(float)
OOMB_PAGE_SELECTION(double)

}  // namespace oomb::trainer
