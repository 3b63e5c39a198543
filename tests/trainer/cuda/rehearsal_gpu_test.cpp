// After the rehearsal no step makes a plan of a library's.

#include "tests/trainer/cuda/cuda_step.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

ModelShape shape_with_all() {
    ModelShape shape = gpu_shape();
    shape.layers = 3;
    shape.qk_norm = shape.qkv_bias = shape.output_bias = true;
    return shape;
}

// Sequences of the context, an uneven last chunk, updates; then a shorter sequence.
template <class T>
void check_steps(RunConfiguration run, const ModelShape& shape) {
    run.shard_parameters = 50'000;
    const schedule::Plan plan = schedule::make_plan(shape, run);
    CAPTURE(to_json(plan));
    std::int64_t shown = 0, total = 0;
    trainer::CudaBackendOptions options;
    options.progress.preparing = [&](std::int64_t done, std::int64_t all) {
        CHECK(done == ++shown);
        total = all;
    };
    trainer::CudaBackend<T> backend(plan, std::move(options));
    CHECK(shown == total);
    CHECK(total > 20);
    CHECK(backend.preparation_seconds() > 0.0);
    CHECK(backend.touched_bytes(Tier::kHbm) == 0);
    const std::int64_t prepared = backend.library_plans();
    CHECK(prepared > 10);
    set_weights(backend, bf16_weights(backend.layout()));
    trainer::Executor executor(plan, backend);
    const TestSequence first = random_sequence(run.context_tokens, shape.vocab, 1, 0.1);
    const TestSequence second = random_sequence(run.context_tokens, shape.vocab, 2);
    for (std::int64_t step = 1; step <= 2; ++step) {
        const std::vector<trainer::SequenceView> views = {first.view(), second.view()};
        executor.compute_gradients(views, {.step = step, .learning_rate = 1e-3, .max_grad_norm = 1.0});
        executor.update_weights();
        CHECK(backend.library_plans() == prepared);
    }
    const TestSequence shorter = random_sequence(run.context_tokens - 21, shape.vocab, 3);
    const std::vector<trainer::SequenceView> views = {shorter.view()};
    CHECK(std::isfinite(executor.compute_gradients(views, {.step = 3, .learning_rate = 1e-3}).loss));
    executor.update_weights();
    CHECK(backend.library_plans() > prepared);
}

// Every `stride`-th way: a graph of cuDNN takes half a second to build.
template <class T>
void check_ways(const RunConfiguration& cut, std::size_t stride) {
    const std::vector<Way> ways = all_ways();
    for (std::size_t i = 0; i < ways.size(); i += stride) {
        const Way& way = ways[i];
        RunConfiguration run = cut;
        run.offload = way.offload;
        run.keep = way.keep;
        run.held_chunks = way.held_chunks;
        run.kept_pages = way.kept_pages;
        run.resident_shards = way.resident_shards;
        run.bf16_gradients = run.split_masters = std::is_same_v<T, BFloat16> && i / stride % 2 == 1;
        if (way.offload == Offload::kHost) {
            run.hbm_pages.mode = HbmPages::Mode::kRing;
        }
        check_steps<T>(run, shape_with_all());
    }
}

TEST_CASE("bf16: no way of keeping and placing leaves a plan to a step") {
    check_ways<BFloat16>(gpu_run(243, 64, DType::kBF16), 4);
    check_ways<BFloat16>(KernelCut{1'100, 512, AttentionKernels::kOwn}.run(), 8);
}

TEST_CASE("fp32: the same") {
    check_ways<float>(gpu_run(243, 64, DType::kF32), 1);
}

// 136 * 2 and 200 * 2 bytes: parameters of each layer begin elsewhere modulo 256.
TEST_CASE("layers whose weights are aligned differently") {
    ModelShape shape = gpu_shape();
    shape.layers = 4;
    shape.hidden = 136;
    shape.ffn = 200;
    const trainer::ParameterLayout layout(shape);
    REQUIRE(
        (layout.offset(trainer::ParameterKind::kInputNorm, 1) - layout.offset(trainer::ParameterKind::kInputNorm, 0)) %
            256 !=
        0);
    check_steps<BFloat16>(gpu_run(243, 64, DType::kBF16), shape);
    check_steps<float>(gpu_run(243, 64, DType::kF32), shape);
}

}  // namespace
}  // namespace oomb::testing
