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

// A cut of a sequence, and who computes its attention in bf16. Our own kernels want pages of 128 tokens: there a chunk
// and a window have a few, as elsewhere of pages of 16.
struct KernelCut {
    std::int64_t context, chunk;
    AttentionKernels kernels = AttentionKernels::kCudnn;

    RunConfiguration run() const {
        RunConfiguration run = gpu_run(context, chunk, DType::kBF16);
        run.attention_kernels = kernels;
        if (kernels == AttentionKernels::kOwn) {
            run.page_tokens = kOwnKernelsPageTokens;
            run.window_tokens = 3 * run.page_tokens;
        }
        return run;
    }
};

struct CudaOutcome {
    trainer::StepResult result;
    std::vector<double> gradients;
    std::int64_t touched_bytes[kTiers] = {0, 0};
};

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
    outcome.gradients = values_of<double>(backend, &trainer::Backend::gradient);
    for (int tier = 0; tier < kTiers; ++tier) {
        outcome.touched_bytes[tier] = backend.touched_bytes(static_cast<Tier>(tier));
    }
    return outcome;
}

}  // namespace oomb::testing
