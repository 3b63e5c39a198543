// One small optimizer step that reaches every kernel, for compute_sanitizer.sh: there a kernel takes a hundred times
// longer.

#include "tests/trainer/cuda/cuda_step.hpp"

namespace oomb::testing {
namespace {

// Biases, Q/K norm, an uneven last chunk; all pages travel, and what is kept with them.
template <class T>
void run_whole_step(DType type) {
    ModelShape shape = gpu_shape();
    shape.layers = 1;
    shape.qk_norm = shape.qkv_bias = shape.output_bias = true;
    RunConfiguration run = gpu_run(150, 64, type);
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.keep = Keep::kInputAndOutput;
    run.kept_pages = {Amount::Mode::kCount, 1};
    const schedule::Plan plan = schedule::make_plan(shape, run);
    trainer::CudaBackend<T> backend(plan);
    set_weights(backend, bf16_weights(trainer::ParameterLayout(shape)));
    trainer::Executor executor(plan, backend);
    const TestSequence sequence = random_sequence(150, shape.vocab, 7, 0.1);
    const std::vector<trainer::SequenceView> views = {sequence.view()};
    const trainer::StepResult result = executor.compute_gradients(views, {.learning_rate = 1e-3, .max_grad_norm = 1.0});
    executor.update_weights();
    CHECK(std::isfinite(result.loss));
    CHECK(result.gradient_norm > 0.0);
    CHECK(backend.find_non_finite().tensor.empty());
}

TEST_CASE("a whole step in fp32") {
    run_whole_step<float>(DType::kF32);
}

TEST_CASE("a whole step in bf16") {
    run_whole_step<BFloat16>(DType::kBF16);
}

}  // namespace
}  // namespace oomb::testing
