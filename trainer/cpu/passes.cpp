// Element-wise passes, norms, loss and optimizer of the CPU backend: our kernels on the arenas' buffers.

#include <algorithm>

#include "kernels/cpu/cross_entropy.hpp"
#include "kernels/cpu/embedding.hpp"
#include "kernels/cpu/optimizer.hpp"
#include "kernels/cpu/rms_norm.hpp"
#include "kernels/cpu/swiglu.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/executor/operand_regions.hpp"

namespace oomb::trainer {

using enum schedule::RegionName;

namespace {

constexpr std::int64_t kScalarCount = 3;  // loss sum, valid targets, sum of squared gradients

}  // namespace

// And the sums that a step or an evaluation adds to.
template <class T>
void CpuBackend<T>::zero_gradients(const Issued& issued) {
    const auto start = [&]<class E>(const GradientPlace& place) {
        return memory_.template write<E>(issued, place.region, place.region_elements);
    };
    gradient_places_.for_each_region([&](const GradientPlace& region) {
        visit_gradient<T>(region, start, [&]<class E>(E* values) { std::fill_n(values, region.region_elements, E{}); });
    });
    std::fill_n(memory_.template write<double>(issued, kScalars, kScalarCount), kScalarCount, 0.0);
    const auto& regions = issued.operation.regions;
    if (std::any_of(regions.begin(), regions.end(), [](const auto& use) { return use.region == kRecall; })) {
        const auto count = static_cast<std::int64_t>(model_.layers * plan_.run.recall_budgets.size());
        std::fill_n(memory_.template write<RecallSums>(issued, kRecall, count), count, RecallSums{});
    }
}

template <class T>
void CpuBackend<T>::embedding(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    kernels::cpu::embedding_forward<T>({.tokens = memory_.template read<std::int32_t>(issued, kTokens, rows),
                                        .table = weight(issued, ParameterKind::kEmbedding),
                                        .y = memory_.template write<T>(issued, kLayerInput, rows * model_.hidden),
                                        .rows = rows,
                                        .vocab = model_.vocab,
                                        .width = model_.hidden});
}

template <class T>
void CpuBackend<T>::embedding_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    write_gradient(issued, ParameterKind::kEmbedding, -1, [&]<class G>(G* d_table) {
        kernels::cpu::embedding_backward<T, G>(
            {.tokens = memory_.template read<std::int32_t>(issued, kTokens, rows),
             .dy = memory_.template read<T>(issued, kStreamGradient, rows * model_.hidden),
             .d_table = d_table,
             .rows = rows,
             .vocab = model_.vocab,
             .width = model_.hidden});
    });
}

template <class T>
void CpuBackend<T>::norm(const Issued& issued) {
    const NormRegions buffers = norm_regions(issued.operation.id.kind);
    const std::int64_t rows = issued.operation.rows, hidden = model_.hidden;
    const std::int64_t first = buffers.in_layer ? 0 : row_in_chunk(issued);
    kernels::cpu::rms_norm_forward<T>(
        {.x = memory_.template read<T>(issued, buffers.input, (first + rows) * hidden) + first * hidden,
         .weight = weight(issued, buffers.weight, buffers.in_layer ? issued.operation.id.layer : -1),
         .y = memory_.template write<T>(issued, buffers.output, rows * hidden),
         .rows = rows,
         .width = hidden,
         .eps = model_.rms_norm_eps});
}

// The final norm's gradient starts the residual stream's; the others add to it.
template <class T>
void CpuBackend<T>::norm_backward(const Issued& issued) {
    const NormRegions buffers = norm_regions(issued.operation.id.kind);
    const std::int64_t layer = buffers.in_layer ? issued.operation.id.layer : -1;
    const std::int64_t rows = issued.operation.rows, hidden = model_.hidden;
    const std::int64_t first = buffers.in_layer ? 0 : row_in_chunk(issued);
    kernels::cpu::rms_norm_backward<T>(
        {.dy = memory_.template read<T>(issued, buffers.output_gradient, rows * hidden),
         .x = memory_.template read<T>(issued, buffers.input, (first + rows) * hidden) + first * hidden,
         .weight = weight(issued, buffers.weight, layer),
         .dx = memory_.template write<T>(issued, kStreamGradient, (first + rows) * hidden) + first * hidden,
         .d_weight = vector_gradient(issued, buffers.weight, layer),
         .rows = rows,
         .width = hidden,
         .eps = model_.rms_norm_eps,
         .add_to_dx = buffers.in_layer});
}

template <class T>
void CpuBackend<T>::swiglu(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, ffn = model_.ffn;
    const T* gate = memory_.template read<T>(issued, kGateUp, rows * 2 * ffn);
    kernels::cpu::swiglu_forward<T>({.gate = gate,
                                     .up = gate + ffn,
                                     .act = memory_.template write<T>(issued, kFfnActivation, rows * ffn),
                                     .rows = rows,
                                     .width = ffn,
                                     .row_stride = 2 * ffn});
}

template <class T>
void CpuBackend<T>::swiglu_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, ffn = model_.ffn;
    T* gate = memory_.template write<T>(issued, kGateUp, rows * 2 * ffn);
    kernels::cpu::swiglu_backward<T>({.d_act = memory_.template read<T>(issued, kFfnGradient, rows * ffn),
                                      .gate = gate,
                                      .up = gate + ffn,
                                      .d_gate = gate,
                                      .d_up = gate + ffn,
                                      .rows = rows,
                                      .width = ffn,
                                      .row_stride = 2 * ffn});
}

template <class T>
void CpuBackend<T>::cross_entropy(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, first = row_in_chunk(issued);
    const std::int64_t chunk_rows = std::min(plan_.run.chunk_tokens, plan_.run.context_tokens);
    const bool losses_only = plan_.run.forward_only;
    const std::int64_t logits = rows * model_.vocab;
    const auto sum = kernels::cpu::cross_entropy<T>(
        {.logits = losses_only ? const_cast<T*>(memory_.template read<T>(issued, kLogits, logits))
                               : memory_.template write<T>(issued, kLogits, logits),
         .targets =
             memory_.template read<std::int32_t>(issued, kTokens, chunk_rows + first + rows) + chunk_rows + first,
         .row_losses = losses_only ? memory_.template write<A>(issued, kTokenLosses, first + rows) + first : nullptr,
         .rows = rows,
         .vocab = model_.vocab,
         .scale = settings_.loss_scale,
         .losses_only = losses_only});
    auto* scalars = memory_.template write<double>(issued, kScalars, kScalarCount);
    scalars[0] += sum.loss;
    scalars[1] += static_cast<double>(sum.valid_targets);
}

template <class T>
void CpuBackend<T>::gradient_norm(const Issued& issued) {
    const auto start = [&]<class E>(const GradientPlace& place) {
        return memory_.template read<E>(issued, place.region, place.region_elements);
    };
    double sum = 0;
    gradient_places_.for_each_region([&](const GradientPlace& region) {
        sum += visit_gradient<T>(region, start, [&](const auto* values) {
            return kernels::cpu::sum_of_squares(values, region.region_elements);
        });
    });
    memory_.template write<double>(issued, kScalars, kScalarCount)[2] = sum;
}

// One shard. What its states were before the first step means nothing.
template <class T>
void CpuBackend<T>::optimizer(const Issued& issued) {
    const std::int64_t elements = layout_.elements(), shard = issued.operation.id.part;
    const double scale = clipping_scale(settings_, memory_.template read<double>(issued, kScalars, kScalarCount)[2]);
    const auto start = [&]<class E>(const GradientPlace& place) {
        return memory_.template read<E>(issued, place.region, place.region_elements);
    };
    T* weights = memory_.template write<T>(issued, kWeights, elements);
    const ShardStates<A> states = states_of<A>(memory_, issued, shards_);
    const std::int64_t begin = shards_.first(shard), count = shards_.size(shard);
    if (settings_.step == 1) {
        std::fill_n(states.m, count, A{0});
        std::fill_n(states.v, count, A{0});
    }
    layout_.for_each_part(begin, count, [&](std::size_t parameter, std::int64_t first, std::int64_t size) {
        visit_gradient<T>(gradient_places_.of(parameter), start, [&]<class G>(const G* gradient) {
            kernels::cpu::adamw_step(adamw_operands<T, G>(states, first - begin, size, layout_.parameters()[parameter],
                                                          settings_, scale, weights + first,
                                                          gradient + (first - layout_.offset(parameter))));
        });
    });
}

#define OOMB_PASSES(T)                                              \
    template void CpuBackend<T>::zero_gradients(const Issued&);     \
    template void CpuBackend<T>::embedding(const Issued&);          \
    template void CpuBackend<T>::embedding_backward(const Issued&); \
    template void CpuBackend<T>::norm(const Issued&);               \
    template void CpuBackend<T>::norm_backward(const Issued&);      \
    template void CpuBackend<T>::swiglu(const Issued&);             \
    template void CpuBackend<T>::swiglu_backward(const Issued&);    \
    template void CpuBackend<T>::cross_entropy(const Issued&);      \
    template void CpuBackend<T>::gradient_norm(const Issued&);      \
    template void CpuBackend<T>::optimizer(const Issued&);
OOMB_PASSES(BFloat16)
OOMB_PASSES(float)
OOMB_PASSES(double)

}  // namespace oomb::trainer
