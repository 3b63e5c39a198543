// Top-K pages of the CUDA backend: means, scores, lists, and the lists' way to the issuer; recall.

#include "kernels/cuda/page_selection.hpp"

#include "runtime/device/check.hpp"
#include "trainer/cuda/cuda_backend.hpp"
#include "trainer/executor/selection_operands.hpp"

namespace oomb::trainer {

using schedule::Access;

namespace {

// A wait for lists belongs to no operation that was taken: it is named by what it is for.
class ListContext : public device::ErrorContext {
  public:
    ListContext(std::int64_t layer, std::int64_t first, std::int64_t count)
        : layer_(layer), first_(first), count_(count) {}
    std::string describe() const override {
        return fmt::format("waiting for the page lists of layer {}, query pages {} to {}", layer_, first_,
                           first_ + count_ - 1);
    }

  private:
    std::int64_t layer_, first_, count_;
};

}  // namespace

template <class T>
void CudaBackend<T>::page_means(const Issued& issued) {
    const auto pages = page_view<const T>(issued, 0, issued.operation.rows, issued.operation.first_row, Access::kRead);
    kernels::cuda::page_means(page_means_operands<T>(*memory_, issued, pages), stream());
}

template <class T>
void CudaBackend<T>::page_scores(const Issued& issued) {
    kernels::cuda::page_scores(page_scores_operands<T>(*memory_, plan_, issued), workspace(workspace_.library),
                               stream());
}

template <class T>
void CudaBackend<T>::select_pages(const Issued& issued) {
    kernels::cuda::select_pages(select_pages_operands<A>(*memory_, plan_, issued), stream());
}

template <class T>
void CudaBackend<T>::store_lists(const Issued& issued) {
    const ListCopy copy = store_lists_operands(*memory_, plan_, issued);
    const device::Copy whole{reinterpret_cast<const std::byte*>(copy.home) - memory_->arena(Tier::kHost),
                             reinterpret_cast<const std::byte*>(copy.selected) - memory_->arena(Tier::kHbm),
                             copy.entries * static_cast<std::int64_t>(sizeof(std::int32_t))};
    streams_->copy(device::Direction::kDeviceToHost, {&whole, 1});
}

template <class T>
std::vector<std::int32_t> CudaBackend<T>::page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                                     issue::Ticket stored) {
    const ListContext context(layer, first, count);
    const device::ErrorScope scope(context);
    streams_->wait_for_ticket(schedule::Engine::kDeviceToHost, stored);
    return stored_lists(*memory_, plan_, layer, first, count);
}

template <class T>
void CudaBackend<T>::page_mass(const Issued& issued) {
    const std::int64_t page_tokens = plan_.run.page_tokens;
    const PageSet& pages = issued.operation.requests[0].pages;
    const auto window =
        page_view<const T>(issued, 0, pages.count * page_tokens, pages.first * page_tokens, Access::kRead);
    kernels::cuda::page_mass(page_mass_operands<T>(*memory_, plan_, issued, window), stream());
}

template <class T>
void CudaBackend<T>::page_recall(const Issued& issued) {
    kernels::cuda::page_recall(page_recall_operands<A>(*memory_, plan_, issued), stream());
}

template <class T>
std::vector<RecallSums> CudaBackend<T>::recall() const {
    std::vector<RecallSums> sums(model_.layers * plan_.run.recall_budgets.size());
    OOMB_CUDA(cudaMemcpy(sums.data(), memory_->idle<RecallSums>(schedule::RegionName::kRecall),
                         sums.size() * sizeof(RecallSums), cudaMemcpyDeviceToHost));
    return sums;
}

#define OOMB_PAGE_SELECTION(T)                                                                              \
    template void CudaBackend<T>::page_means(const Issued&);                                                \
    template void CudaBackend<T>::page_scores(const Issued&);                                               \
    template void CudaBackend<T>::select_pages(const Issued&);                                              \
    template void CudaBackend<T>::page_mass(const Issued&);                                                 \
    template void CudaBackend<T>::page_recall(const Issued&);                                               \
    template std::vector<RecallSums> CudaBackend<T>::recall() const;                                        \
    template void CudaBackend<T>::store_lists(const Issued&);                                               \
    template std::vector<std::int32_t> CudaBackend<T>::page_lists(std::int64_t, std::int64_t, std::int64_t, \
                                                                  issue::Ticket);
OOMB_PAGE_SELECTION(BFloat16)
OOMB_PAGE_SELECTION(float)

}  // namespace oomb::trainer
