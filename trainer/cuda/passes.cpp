// Element-wise passes, norms, loss and optimizer of the CUDA backend: our kernels on the arena's buffers.

#include <algorithm>

#include "kernels/cuda/cross_entropy.hpp"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/optimizer.hpp"
#include "kernels/cuda/rms_norm.hpp"
#include "kernels/cuda/swiglu.hpp"
#include "runtime/device/check.hpp"
#include "trainer/cuda/cuda_backend.hpp"
#include "trainer/executor/operand_regions.hpp"

namespace oomb::trainer {

using enum schedule::RegionName;

// And the sums that a step or an evaluation adds to.
template <class T>
void CudaBackend<T>::zero_gradients(const Issued& issued) {
    const auto start = [&]<class E>(const GradientPlace& place) {
        return memory_->write<E>(issued, place.region, place.region_elements);
    };
    gradient_places_.for_each_region([&](const GradientPlace& region) {
        visit_gradient<T>(region, start, [&]<class E>(E* values) {
            OOMB_CUDA(cudaMemsetAsync(values, 0, region.region_elements * sizeof(E), stream()));
        });
    });
    OOMB_CUDA(cudaMemsetAsync(memory_->write<Scalars>(issued, kScalars, 1), 0, sizeof(Scalars), stream()));
    const auto& regions = issued.operation.regions;
    if (std::any_of(regions.begin(), regions.end(), [](const auto& use) { return use.region == kRecall; })) {
        const auto count = static_cast<std::int64_t>(model_.layers * plan_.run.recall_budgets.size());
        OOMB_CUDA(cudaMemsetAsync(memory_->write<RecallSums>(issued, kRecall, count), 0, count * sizeof(RecallSums),
                                  stream()));
    }
}

template <class T>
void CudaBackend<T>::embedding(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    kernels::cuda::embedding_forward<T>({.tokens = memory_->read<std::int32_t>(issued, kTokens, rows),
                                         .table = weight(issued, ParameterKind::kEmbedding),
                                         .y = memory_->write<T>(issued, kLayerInput, rows * model_.hidden),
                                         .rows = rows,
                                         .vocab = model_.vocab,
                                         .width = model_.hidden},
                                        stream());
}

template <class T>
void CudaBackend<T>::embedding_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    write_gradient(issued, ParameterKind::kEmbedding, -1, [&]<class G>(G* d_table) {
        kernels::cuda::embedding_backward<T, G>({.tokens = memory_->read<std::int32_t>(issued, kTokens, rows),
                                                 .dy = memory_->read<T>(issued, kStreamGradient, rows * model_.hidden),
                                                 .d_table = d_table,
                                                 .rows = rows,
                                                 .vocab = model_.vocab,
                                                 .width = model_.hidden},
                                                stream());
    });
}

template <class T>
void CudaBackend<T>::norm(const Issued& issued) {
    const NormRegions regions = norm_regions(issued.operation.id.kind);
    const std::int64_t rows = issued.operation.rows, hidden = model_.hidden;
    const std::int64_t first = regions.in_layer ? 0 : row_in_chunk(issued);
    kernels::cuda::rms_norm_forward<T>(
        {.x = memory_->read<T>(issued, regions.input, (first + rows) * hidden) + first * hidden,
         .weight = weight(issued, regions.weight, regions.in_layer ? issued.operation.id.layer : -1),
         .y = memory_->write<T>(issued, regions.output, rows * hidden),
         .rows = rows,
         .width = hidden,
         .eps = model_.rms_norm_eps},
        stream());
}

// The final norm's gradient starts the residual stream's; the others add to it.
template <class T>
void CudaBackend<T>::norm_backward(const Issued& issued) {
    const NormRegions regions = norm_regions(issued.operation.id.kind);
    const std::int64_t layer = regions.in_layer ? issued.operation.id.layer : -1;
    const std::int64_t rows = issued.operation.rows, hidden = model_.hidden;
    const std::int64_t first = regions.in_layer ? 0 : row_in_chunk(issued);
    kernels::cuda::rms_norm_backward<T>(
        {.dy = memory_->read<T>(issued, regions.output_gradient, rows * hidden),
         .x = memory_->read<T>(issued, regions.input, (first + rows) * hidden) + first * hidden,
         .weight = weight(issued, regions.weight, layer),
         .dx = memory_->write<T>(issued, kStreamGradient, (first + rows) * hidden) + first * hidden,
         .d_weight = vector_gradient(issued, regions.weight, layer),
         .rows = rows,
         .width = hidden,
         .eps = model_.rms_norm_eps,
         .add_to_dx = regions.in_layer},
        workspace(workspace_.library), stream());
}

template <class T>
void CudaBackend<T>::swiglu(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, ffn = model_.ffn;
    const T* gate = memory_->read<T>(issued, kGateUp, rows * 2 * ffn);
    kernels::cuda::swiglu_forward<T>({.gate = gate,
                                      .up = gate + ffn,
                                      .act = memory_->write<T>(issued, kFfnActivation, rows * ffn),
                                      .rows = rows,
                                      .width = ffn,
                                      .row_stride = 2 * ffn},
                                     stream());
}

template <class T>
void CudaBackend<T>::swiglu_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, ffn = model_.ffn;
    T* gate = memory_->write<T>(issued, kGateUp, rows * 2 * ffn);
    kernels::cuda::swiglu_backward<T>({.d_act = memory_->read<T>(issued, kFfnGradient, rows * ffn),
                                       .gate = gate,
                                       .up = gate + ffn,
                                       .d_gate = gate,
                                       .d_up = gate + ffn,
                                       .rows = rows,
                                       .width = ffn,
                                       .row_stride = 2 * ffn},
                                      stream());
}

template <class T>
void CudaBackend<T>::cross_entropy(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, first = row_in_chunk(issued);
    const std::int64_t chunk_rows = std::min(plan_.run.chunk_tokens, plan_.run.context_tokens);
    const bool losses_only = plan_.run.forward_only;
    const std::int64_t logits = rows * model_.vocab;
    kernels::cuda::cross_entropy<T>(
        {.logits = losses_only ? const_cast<T*>(memory_->read<T>(issued, kLogits, logits))
                               : memory_->write<T>(issued, kLogits, logits),
         .targets = memory_->read<std::int32_t>(issued, kTokens, chunk_rows + first + rows) + chunk_rows + first,
         .row_losses = losses_only ? memory_->write<A>(issued, kTokenLosses, first + rows) + first : nullptr,
         .rows = rows,
         .vocab = model_.vocab,
         .scale = settings_.loss_scale,
         .losses_only = losses_only},
        &memory_->write<Scalars>(issued, kScalars, 1)->loss, workspace(workspace_.library), stream());
}

template <class T>
void CudaBackend<T>::gradient_norm(const Issued& issued) {
    double* sum = &memory_->write<Scalars>(issued, kScalars, 1)->gradient_squares;
    OOMB_CUDA(cudaMemsetAsync(sum, 0, sizeof *sum, stream()));
    const auto start = [&]<class E>(const GradientPlace& place) {
        return memory_->read<E>(issued, place.region, place.region_elements);
    };
    gradient_places_.for_each_region([&](const GradientPlace& region) {
        visit_gradient<T>(region, start, [&](const auto* values) {
            kernels::cuda::sum_of_squares(values, region.region_elements, sum, workspace(workspace_.library), stream());
        });
    });
}

// One shard. The first is issued when gradients and norm are known to the host, where clipping is decided; the others
// wait for nothing there. What the states were before the first step means nothing.
template <class T>
void CudaBackend<T>::optimizer(const Issued& issued) {
    const std::int64_t elements = layout_.elements(), shard = issued.operation.id.part;
    if (shard == 0) {
        gradient_scale_ = clipping_scale(settings_, sums().gradient_squares);
    }
    const auto start = [&]<class E>(const GradientPlace& place) {
        return memory_->read<E>(issued, place.region, place.region_elements);
    };
    T* weights = memory_->write<T>(issued, kWeights, elements);
    const ShardStates<A> states = states_of<A>(*memory_, issued, shards_);
    const std::int64_t begin = shards_.first(shard), count = shards_.size(shard);
    if (settings_.step == 1) {
        OOMB_CUDA(cudaMemsetAsync(states.m, 0, count * sizeof(A), stream()));
        OOMB_CUDA(cudaMemsetAsync(states.v, 0, count * sizeof(A), stream()));
    }
    layout_.for_each_part(begin, count, [&](std::size_t parameter, std::int64_t first, std::int64_t size) {
        visit_gradient<T>(gradient_places_.of(parameter), start, [&]<class G>(const G* gradient) {
            kernels::cuda::adamw_step(
                adamw_operands<T, G>(states, first - begin, size, layout_.parameters()[parameter], settings_,
                                     gradient_scale_, weights + first, gradient + (first - layout_.offset(parameter))),
                stream());
        });
    });
}

#define OOMB_PASSES(T)                                               \
    template void CudaBackend<T>::zero_gradients(const Issued&);     \
    template void CudaBackend<T>::embedding(const Issued&);          \
    template void CudaBackend<T>::embedding_backward(const Issued&); \
    template void CudaBackend<T>::norm(const Issued&);               \
    template void CudaBackend<T>::norm_backward(const Issued&);      \
    template void CudaBackend<T>::swiglu(const Issued&);             \
    template void CudaBackend<T>::swiglu_backward(const Issued&);    \
    template void CudaBackend<T>::cross_entropy(const Issued&);      \
    template void CudaBackend<T>::gradient_norm(const Issued&);      \
    template void CudaBackend<T>::optimizer(const Issued&);
OOMB_PASSES(BFloat16)
OOMB_PASSES(float)

}  // namespace oomb::trainer
