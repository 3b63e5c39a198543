// Top-K pages of the CPU backend: means, scores, lists, and the lists' way to the issuer.

#include "kernels/cpu/page_selection.hpp"

#include <algorithm>

#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/executor/selection_operands.hpp"

namespace oomb::trainer {

template <class T>
void CpuBackend<T>::page_means(const Issued& issued) {
    const auto pages = page_view<const T>(issued, 0, issued.operation.first_row, issued.operation.rows);
    kernels::cpu::page_means(page_means_operands<T>(memory_, issued, pages));
}

template <class T>
void CpuBackend<T>::page_scores(const Issued& issued) {
    kernels::cpu::page_scores(page_scores_operands<T>(memory_, plan_, issued));
}

template <class T>
void CpuBackend<T>::select_pages(const Issued& issued) {
    kernels::cpu::select_pages(select_pages_operands<A>(memory_, plan_, issued));
}

template <class T>
void CpuBackend<T>::store_lists(const Issued& issued) {
    const ListCopy copy = store_lists_operands(memory_, plan_, issued);
    std::copy_n(copy.selected, copy.entries, copy.home);
}

template <class T>
std::vector<std::int32_t> CpuBackend<T>::page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                                    issue::Ticket stored) {
    queues_->wait_for(schedule::Engine::kDeviceToHost, stored);
    return stored_lists(memory_, plan_, layer, first, count);
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
