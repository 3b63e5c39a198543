#include "trainer/cuda/cuda_backend.hpp"

#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/cuda/convert.hpp"
#include "kernels/cuda/cross_entropy.hpp"
#include "kernels/cuda/hopper/attention.hpp"
#include "kernels/cuda/hopper/walk.hpp"
#include "kernels/cuda/optimizer.hpp"
#include "kernels/cuda/page_selection.hpp"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/rms_norm.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/check.hpp"
#include "trainer/executor/dispatch.hpp"
#include "trainer/executor/rehearsal.hpp"

namespace oomb::trainer {

using schedule::RegionName;

namespace {

// Says what a failing call was about.
class OperationContext : public device::ErrorContext {
  public:
    OperationContext(const schedule::Operation& operation, const PlannedMemory& memory)
        : operation_(operation), memory_(memory) {}
    std::string describe() const override {
        return fmt::format("{}; arenas used up to {} bytes of HBM, {} of host memory", to_text(operation_.id),
                           memory_.touched_bytes(Tier::kHbm), memory_.touched_bytes(Tier::kHost));
    }

  private:
    const schedule::Operation& operation_;
    const PlannedMemory& memory_;
};

}  // namespace

template <class T>
CudaBackend<T>::CudaBackend(const schedule::Plan& plan, CudaBackendOptions options)
    : plan_(plan),
      model_(plan.model),
      workspace_(schedule::workspace(schedule::StepShape(plan.model, plan.run))),
      scratch_(schedule::attention_scratch(schedule::StepShape(plan.model, plan.run))),
      layout_(plan.model),
      gradient_places_(layout_, plan.run),
      shards_(schedule::optimizer_shards(schedule::StepShape(plan.model, plan.run))),
      frequencies_(rope_frequencies(plan.model)),
      options_(std::move(options)),
      meter_(device::probe_device().pci_bus) {
    constexpr DType kType = std::is_same_v<T, float> ? DType::kF32 : DType::kBF16;
    require(plan.run.device == DeviceKind::kCuda && plan.run.compute == kType && plan.run.accumulator == DType::kF32,
            "CUDA backend: the plan computes in {} on {}", name_of(plan.run.compute), name_of(plan.run.device));
    check_workspaces();
    device_ = device::open_device();
    hbm_ = std::make_unique<device::HbmArena>(plan.arena_bytes[static_cast<int>(Tier::kHbm)]);
    device::HostArenaOptions pinning;
    pinning.numa_node = device_.numa_node;
    pinning.progress = options_.progress.reserving;
    host_ = std::make_unique<device::HostArena>(plan.arena_bytes[static_cast<int>(Tier::kHost)], pinning);
    map_arenas();
    streams_ = std::make_unique<EngineStreams>(plan, hbm_->view(), host_->view(), options_.streams);
    products_ = std::make_unique<MatrixProducts>(stream(), workspace(workspace_.library), workspace_.library_bytes,
                                                 plan.run.deterministic);
    if (std::is_same_v<T, BFloat16> && !options_.plain_attention &&
        plan.run.attention_kernels != AttentionKernels::kOwn) {
        library_attention_ = std::make_unique<CudnnAttention>(stream(), plan.run.deterministic);
    }
    rehearse();
    OOMB_CUDA(cudaMemcpy(workspace(workspace_.frequencies), frequencies_.inverse_frequency.data(),
                         frequencies_.inverse_frequency.size() * sizeof(float), cudaMemcpyHostToDevice));
}

template <class T>
CudaBackend<T>::~CudaBackend() = default;

// Kernels that sum partial results do so in the workspace that the plan set aside.
template <class T>
void CudaBackend<T>::check_workspaces() const {
    const schedule::StepShape step(plan_.model, plan_.run);
    const std::int64_t rows = step.longest_chunk();
    const auto fits = [&](std::size_t bytes, const char* what) {
        require(static_cast<std::int64_t>(bytes) <= workspace_.library_bytes,
                "{} needs {} bytes of workspace, {} are planned", what, bytes, workspace_.library_bytes);
    };
    fits(kernels::cuda::rms_norm_backward_workspace_bytes<T>(rows, model_.hidden), "rms_norm_backward");
    fits(kernels::cuda::cross_entropy_workspace_bytes(plan_.run.logit_tile_tokens), "cross_entropy");
    fits(kernels::cuda::sum_of_squares_workspace_bytes(), "sum_of_squares");
    fits(kernels::cuda::qkv_backward_workspace_bytes<T>(rows, model_.query_heads, model_.kv_heads, model_.head_dim),
         "qkv_backward");
    fits(kernels::cuda::column_sums_workspace_bytes<T>(rows, model_.hidden), "column_sums");
    if (workspace_.turns_count > 0) {
        namespace hopper = kernels::cuda::hopper;
        const std::int64_t queries = step.own_kernels() ? rows : step.pages_per_group() * hopper::kPageTokens;
        const std::int64_t turns = hopper::backward_turns(queries, model_.query_heads);
        require(turns <= workspace_.turns_count, "attention takes {} turns, {} are planned", turns,
                workspace_.turns_count);
    }
    if (step.needs_means()) {
        fits(kernels::cuda::page_scores_workspace_bytes<T>(rows, model_.kv_heads, model_.head_dim), "page_scores");
    }
}

template <class T>
void CudaBackend<T>::map_arenas() {
    memory_ = std::make_unique<PlannedMemory>(plan_, PlannedMemory::Arenas{hbm_->view().base, host_->view().base});
}

template <class T>
void CudaBackend<T>::clear() {
    OOMB_CUDA(cudaMemset(hbm_->view().base, 0, hbm_->bytes()));
    OOMB_CUDA(cudaDeviceSynchronize());
}

// On zeros, past the engines: neither tickets, nor phases, nor what counts as touched know of it.
template <class T>
void CudaBackend<T>::rehearse() {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<Issued> operations = rehearsal_of(plan_, layout_);
    clear();
    for (std::size_t i = 0; i < operations.size(); ++i) {
        const OperationContext context(operations[i].operation, *memory_);
        const device::ErrorScope scope(context);
        Dispatch::run(*this, operations[i]);
        if (options_.progress.preparing) {
            options_.progress.preparing(static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(operations.size()));
        }
    }
    OOMB_CUDA(cudaStreamSynchronize(stream()));
    clear();
    map_arenas();
    preparation_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class T>
std::int64_t CudaBackend<T>::library_plans() const {
    return products_->plans() + (library_attention_ ? library_attention_->graphs() : 0);
}

template <class T>
void CudaBackend<T>::take(Issued operation) {
    const OperationContext context(operation.operation, *memory_);
    const device::ErrorScope scope(context);
    const OperationMark mark(operation.operation.id);
    streams_->begin(operation, this->on_timed);
    Dispatch::run(*this, operation);
    streams_->end(operation, this->on_done, this->on_timed);
}

template <class T>
void CudaBackend<T>::wait_idle() {
    streams_->wait_idle(this->on_done, this->on_timed);
}

template <class T>
void CudaBackend<T>::set_sequence(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) {
    auto* host = memory_->idle<std::int32_t>(RegionName::kHostTokens);
    const std::int64_t context = plan_.run.context_tokens;
    std::copy(tokens.begin(), tokens.end(), host);
    std::copy(targets.begin(), targets.end(), host + context);
    memory_->note_touched(Tier::kHost, region_of(plan_.regions, RegionName::kHostTokens).offset_bytes +
                                           (context + static_cast<std::int64_t>(targets.size())) * 4);
}

template <class T>
StepSums CudaBackend<T>::sums() const {
    Scalars scalars;
    OOMB_CUDA(
        cudaMemcpy(&scalars, memory_->idle<Scalars>(RegionName::kScalars), sizeof scalars, cudaMemcpyDeviceToHost));
    return {scalars.loss.loss, scalars.loss.valid_targets, scalars.gradient_squares};
}

template <class T>
std::vector<double> CudaBackend<T>::token_losses(std::int64_t tokens) const {
    const A* losses = memory_->idle<A>(RegionName::kHostLosses);
    return {losses, losses + tokens};
}

template <class T>
NonFinite CudaBackend<T>::find_non_finite() const {
    auto* found = &memory_->idle<Scalars>(RegionName::kScalars)->non_finite_index;
    const auto find = [&](const auto* values, const char* what, const ParameterInfo& parameter) -> NonFinite {
        kernels::cuda::find_non_finite(values, parameter.elements, found, stream());
        std::int64_t index = -1;
        OOMB_CUDA(cudaMemcpyAsync(&index, found, sizeof index, cudaMemcpyDeviceToHost, stream()));
        OOMB_CUDA(cudaStreamSynchronize(stream()));
        return index < 0 ? NonFinite{} : NonFinite{fmt::format("{} {}", what, parameter.name), index};
    };
    const auto search = [&](const auto& find_in) -> NonFinite {
        for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
            if (NonFinite bad = find_in(i, layout_.parameters()[i]); !bad.tensor.empty()) {
                return bad;
            }
        }
        return {};
    };
    const auto start = [&]<class E>(const GradientPlace& place) { return memory_->idle<E>(place.region); };
    const NonFinite in_weights = search([&](std::size_t i, const ParameterInfo& parameter) {
        return find(memory_->idle<T>(RegionName::kWeights) + layout_.offset(i), "weight", parameter);
    });
    const bool ends = !in_weights.tensor.empty() || gradient_places_.none();
    return ends ? in_weights : search([&](std::size_t i, const ParameterInfo& parameter) {
        return visit_gradient<T>(gradient_places_.of(i), start,
                                 [&](const auto* values) { return find(values, "gradient of", parameter); });
    });
}

template <class T>
const T* CudaBackend<T>::weight(const Issued& issued, ParameterKind kind, std::int64_t layer) {
    return memory_->read<T>(issued, RegionName::kWeights, layout_.elements()) + layout_.offset(kind, layer);
}

template <class T>
typename CudaBackend<T>::A* CudaBackend<T>::vector_gradient(const Issued& issued, ParameterKind kind,
                                                            std::int64_t layer) {
    const GradientPlace place = gradient_places_.of(layout_.index(kind, layer));
    return memory_->write<A>(issued, place.region, place.region_elements) + place.first;
}

template <class T>
std::int64_t CudaBackend<T>::row_in_chunk(const Issued& issued) const {
    return issued.operation.first_row - issued.operation.id.chunk * plan_.run.chunk_tokens;
}

template <class T>
std::byte* CudaBackend<T>::workspace(std::int64_t part) const {
    return memory_->idle<std::byte>(RegionName::kWorkspace) + part;
}

template class CudaBackend<BFloat16>;
template class CudaBackend<float>;

}  // namespace oomb::trainer
