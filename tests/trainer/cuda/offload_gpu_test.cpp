// Where pages lie and in which order streams run changes no bit.

#include <random>

#include "tests/trainer/cuda/cuda_step.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

struct Case {
    ModelShape shape = gpu_shape();
    std::vector<double> weights = bf16_weights(trainer::ParameterLayout(shape));
    std::vector<TestSequence> sequences = {random_sequence(300, shape.vocab, 5, 0.1),
                                           random_sequence(77, shape.vocab, 6)};
    RunConfiguration run = [] {
        RunConfiguration configured = gpu_run(300, 64, DType::kBF16);
        configured.deterministic = true;
        return configured;
    }();

    CudaOutcome outcome(const RunConfiguration& configured, trainer::CudaBackendOptions options = {}) const {
        return run_cuda_step<BFloat16>(schedule::make_plan(shape, configured), weights, sequences, std::move(options));
    }
};

RunConfiguration with_pages(RunConfiguration run, HbmPages pages, Keep keep) {
    run.offload = Offload::kHost;
    run.hbm_pages = pages;
    run.keep = keep;
    return run;
}

TEST_CASE("deterministic: offload on or off, ring or any number of pages, kept or not, the same bits") {
    const Case c;
    const CudaOutcome expected = c.outcome(c.run);
    CHECK(same_bits(c.outcome(c.run).gradients, expected.gradients));
    std::mt19937_64 random(11);
    for (int i = 0; i < 50; ++i) {
        const HbmPages pages = i == 0 ? HbmPages{HbmPages::Mode::kRing, 0}
                                      : HbmPages{HbmPages::Mode::kCount, static_cast<std::int64_t>(random() % 40)};
        const Keep keep = i % 3 == 0 ? Keep::kInputAndOutput : Keep::kNone;
        const RunConfiguration run = with_pages(c.run, pages, keep);
        const schedule::Plan plan = schedule::make_plan(c.shape, run);
        const CudaOutcome found = c.outcome(run);
        CAPTURE(i);
        CAPTURE(pages.count);
        CHECK(same_bits(found.gradients, expected.gradients));
        CHECK(found.result.loss == expected.result.loss);
        for (int tier = 0; tier < kTiers; ++tier) {
            CHECK(found.touched_bytes[tier] <= plan.arena_bytes[tier]);
        }
    }
}

TEST_CASE("deterministic, with every stream delayed at random between operations: the same bits") {
    const Case c;
    const CudaOutcome expected = c.outcome(c.run);
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        trainer::CudaBackendOptions options;
        options.streams.stress_seed = seed;
        const Keep keep = seed % 2 == 0 ? Keep::kNone : Keep::kInputAndOutput;
        CAPTURE(seed);
        CHECK(same_bits(c.outcome(with_pages(c.run, {HbmPages::Mode::kRing, 0}, keep), std::move(options)).gradients,
                        expected.gradients));
    }
}

TEST_CASE("not deterministic: offload moves gradients no more than a second run does") {
    Case c;
    c.run.deterministic = false;
    const trainer::ParameterLayout layout(c.shape);
    const CudaOutcome first = c.outcome(c.run);
    // Sums of dQ in another order, fp32: 1e-6 of a gradient, seen through bf16 roundings that turn at their edges.
    constexpr double kNoise = 5e-3;
    for (const double error : relative_errors(layout, c.outcome(c.run).gradients, first.gradients)) {
        CHECK(error <= kNoise);
    }
    const auto offloaded = c.outcome(with_pages(c.run, {HbmPages::Mode::kRing, 0}, Keep::kNone));
    for (const double error : relative_errors(layout, offloaded.gradients, first.gradients)) {
        CHECK(error <= kNoise);
    }
}

}  // namespace
}  // namespace oomb::testing
