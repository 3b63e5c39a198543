#pragma once
// One gradient computation through plan, executor and CUDA backend, on the small models of the CPU's tests.

#include "tests/trainer/step_fixture.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace oomb::testing {

// As small_shape(), with sizes that cuDNN and tensor cores take.
inline ModelShape gpu_shape() {
    ModelShape shape = small_shape();
    shape.hidden = 128;
    shape.query_heads = 4;
    shape.kv_heads = 2;
    shape.head_dim = 64;
    shape.ffn = 192;
    shape.vocab = 120;
    return shape;
}

inline RunConfiguration gpu_run(std::int64_t context, std::int64_t chunk, DType type) {
    RunConfiguration run = small_run(context, chunk, DType::kF32);
    run.device = DeviceKind::kCuda;
    run.compute = type;
    run.page_tokens = 16;
    run.window_tokens = 64;
    run.logit_tile_tokens = 48;
    return run;
}

// Weights that bf16 holds exactly, so that rounding them is nobody's error.
inline std::vector<double> bf16_weights(const trainer::ParameterLayout& layout, std::uint64_t seed = 1) {
    std::vector<double> weights = random_weights(layout, seed);
    for (double& weight : weights) {
        weight = static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(weight))));
    }
    return weights;
}

struct CudaOutcome {
    trainer::StepResult result;
    std::vector<double> gradients;
    std::int64_t touched_bytes[kTiers] = {0, 0};
};

inline void set_weights(trainer::Backend& backend, const std::vector<double>& weights) {
    const auto& layout = backend.layout();
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        const std::span<const double> values(weights.data() + layout.offset(i), layout.parameters()[i].elements);
        backend.set_weight(i, std::as_bytes(values), DType::kF64);
    }
}

inline std::vector<double> gradients_of(trainer::Backend& backend) {
    const auto& layout = backend.layout();
    std::vector<double> gradients(layout.elements());
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        const trainer::TensorValues values = backend.gradient(i);
        const auto* floats = reinterpret_cast<const float*>(values.bytes.data());
        std::copy_n(floats, layout.parameters()[i].elements, gradients.begin() + layout.offset(i));
    }
    return gradients;
}

template <class T>
CudaOutcome run_cuda_step(const schedule::Plan& plan, const std::vector<double>& weights,
                          const std::vector<TestSequence>& sequences, trainer::CudaBackendOptions options = {}) {
    trainer::CudaBackend<T> backend(plan, std::move(options));
    set_weights(backend, weights);
    trainer::Executor executor(plan, backend);
    std::vector<trainer::SequenceView> views;
    for (const auto& sequence : sequences) {
        views.push_back(sequence.view());
    }
    CudaOutcome outcome;
    outcome.result = executor.compute_gradients(views, {});
    outcome.gradients = gradients_of(backend);
    for (int tier = 0; tier < kTiers; ++tier) {
        outcome.touched_bytes[tier] = backend.touched_bytes(static_cast<Tier>(tier));
    }
    return outcome;
}

// Relative error of each tensor's gradient; one that is zero up to rounding is measured against 1e-3 of its layer's.
inline std::vector<double> relative_errors(const trainer::ParameterLayout& layout, const std::vector<double>& found,
                                           const std::vector<double>& expected) {
    std::map<std::int64_t, double> layer_squares;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        for (std::int64_t j = 0; j < layout.parameters()[i].elements; ++j) {
            layer_squares[layout.parameters()[i].layer] += std::pow(expected[layout.offset(i) + j], 2);
        }
    }
    std::vector<double> errors;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        double difference = 0, size = 0;
        for (std::int64_t j = layout.offset(i); j < layout.offset(i + 1); ++j) {
            difference += std::pow(found[j] - expected[j], 2);
            size += std::pow(expected[j], 2);
        }
        const double floor = 1e-3 * std::sqrt(layer_squares[layout.parameters()[i].layer]);
        errors.push_back(std::sqrt(difference) / std::max(std::sqrt(size), floor));
    }
    return errors;
}

}  // namespace oomb::testing
