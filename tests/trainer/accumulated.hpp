#pragma once
// How often something is added to the gradient of a matrix within a step, and how large it is each time.

#include <utility>

#include "tests/trainer/step_case.hpp"

namespace oomb::testing {

// Largest relative error of one rounding to bf16, which has 8 significant bits.
inline constexpr double kBf16Roundoff = 0x1p-8;

inline std::vector<trainer::SequenceView> views_of(const StepCase& step) {
    std::vector<trainer::SequenceView> views;
    for (const TestSequence& sequence : step.sequences) {
        views.push_back(sequence.view());
    }
    return views;
}

// The matrices whose gradient an operation adds to.
inline std::vector<trainer::ParameterKind> written_by(schedule::Kind kind) {
    using enum trainer::ParameterKind;
    using schedule::Kind;
    switch (kind) {
        case Kind::kLinearQkvWeightGradient:
            return {kQWeight, kKWeight, kVWeight};
        case Kind::kLinearOutputWeightGradient:
            return {kOWeight};
        case Kind::kLinearGateUpWeightGradient:
            return {kGateWeight, kUpWeight};
        case Kind::kLinearDownWeightGradient:
            return {kDownWeight};
        case Kind::kLinearHeadWeightGradient:
            return {kHead};
        case Kind::kEmbeddingBackward:
            return {kEmbedding};
        default:
            return {};
    }
}

inline double norm_of(const std::vector<double>& values, const trainer::ParameterLayout& layout,
                      std::size_t parameter) {
    double squares = 0;
    for (std::int64_t i = layout.offset(parameter); i < layout.offset(parameter + 1); ++i) {
        squares += values[i] * values[i];
    }
    return std::sqrt(squares);
}

// Gradients of a step, and of each parameter how often something was added to its gradient, the sum of the norms that
// it had after each time, and the sum of the norms of what was added.
struct Accumulated {
    std::vector<double> gradients;
    std::vector<std::int64_t> times;
    std::vector<double> norms, added;
};

// On the CPU in bf16, from weights that bf16 holds exactly; the data are StepCase's.
inline Accumulated accumulate(const RunConfiguration& run, const ModelShape& shape) {
    const StepCase step(run, shape);
    trainer::CpuBackend<BFloat16> backend(step.plan, {.checked = true});
    trainer::Executor executor(step.plan, backend);
    set_weights(backend, bf16_weights(backend.layout()));
    const auto& layout = backend.layout();
    const std::size_t parameters = layout.parameters().size();
    Accumulated result{std::vector<double>(layout.elements()), std::vector<std::int64_t>(parameters),
                       std::vector<double>(parameters), std::vector<double>(parameters)};
    backend.on_done = [&](const schedule::Operation& operation) {
        for (const trainer::ParameterKind kind : written_by(operation.id.kind)) {
            const bool in_layer = kind != trainer::ParameterKind::kHead && kind != trainer::ParameterKind::kEmbedding;
            const std::size_t parameter = layout.index(kind, in_layer ? operation.id.layer : -1);
            const auto gradients = values_of<double>(backend, &trainer::Backend::gradient);
            std::vector<double> added(gradients);
            for (std::int64_t i = layout.offset(parameter); i < layout.offset(parameter + 1); ++i) {
                added[i] -= std::exchange(result.gradients[i], gradients[i]);
            }
            ++result.times[parameter];
            result.norms[parameter] += norm_of(gradients, layout, parameter);
            result.added[parameter] += norm_of(added, layout, parameter);
        }
    };
    executor.compute_gradients(views_of(step), {});
    result.gradients = values_of<double>(backend, &trainer::Backend::gradient);
    return result;
}

}  // namespace oomb::testing
