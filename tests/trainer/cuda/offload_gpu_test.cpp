// Where pages lie and in which order streams run changes no bit.

#include <random>

#include "tests/trainer/cuda/cuda_step.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

// Five chunks, and a second sequence of two.
constexpr KernelCut kCuts[] = {{300, 64}, {1'100, 256, AttentionKernels::kOwn}};

struct Case {
    explicit Case(const KernelCut& cut) : run(cut.run()) {
        run.deterministic = true;
        sequences = {random_sequence(cut.context, shape.vocab, 5, 0.1),
                     random_sequence(cut.chunk + 13, shape.vocab, 6)};
    }
    ModelShape shape = gpu_shape();
    std::vector<double> weights = bf16_weights(trainer::ParameterLayout(shape));
    std::vector<TestSequence> sequences;
    RunConfiguration run;

    CudaOutcome outcome(const RunConfiguration& configured, trainer::CudaBackendOptions options = {}) const {
        return run_cuda_step<BFloat16>(schedule::make_plan(shape, configured), weights, sequences, std::move(options));
    }
};

// Everything that may be chosen without a bit changing, at random.
RunConfiguration any_placement(RunConfiguration run, std::mt19937_64& random) {
    const Keep keeps[] = {Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput};
    run.keep = keeps[random() % 4];
    run.kept_pages = random() % 2 == 0 ? Amount{Amount::Mode::kAll, 0}
                                       : Amount{Amount::Mode::kCount, static_cast<std::int64_t>(random() % 12)};
    if (!keeps_input(run.keep)) {
        run.held_chunks = {Amount::Mode::kCount, static_cast<std::int64_t>(random() % 6)};
    }
    if (random() % 8 != 0) {
        run.offload = Offload::kHost;
        run.hbm_pages = random() % 4 == 0 ? HbmPages{HbmPages::Mode::kRing, 0}
                                          : HbmPages{HbmPages::Mode::kCount, static_cast<std::int64_t>(random() % 40)};
    }
    return run;
}

TEST_CASE("deterministic: offloaded, kept, held, or not, the same bits") {
    for (const KernelCut& cut : kCuts) {
        CAPTURE(name_of(cut.kernels));
        const Case c(cut);
        const CudaOutcome expected = c.outcome(c.run);
        CHECK(same_bits(c.outcome(c.run).gradients, expected.gradients));
        std::mt19937_64 random(11);
        for (int i = 0; i < 50; ++i) {
            const RunConfiguration run = any_placement(c.run, random);
            const schedule::Plan plan = schedule::make_plan(c.shape, run);
            const CudaOutcome found = c.outcome(run);
            CAPTURE(i);
            CAPTURE(schedule::to_json(plan));
            CHECK(same_bits(found.gradients, expected.gradients));
            CHECK(found.result.loss == expected.result.loss);
            for (int tier = 0; tier < kTiers; ++tier) {
                CHECK(found.touched_bytes[tier] == plan.arena_bytes[tier]);
            }
        }
    }
}

TEST_CASE("deterministic, with every stream delayed at random between operations: the same bits") {
    for (const KernelCut& cut : kCuts) {
        CAPTURE(name_of(cut.kernels));
        const Case c(cut);
        const CudaOutcome expected = c.outcome(c.run);
        std::mt19937_64 random(12);
        for (std::uint64_t seed = 0; seed < 12; ++seed) {
            trainer::CudaBackendOptions options;
            options.streams.stress_seed = seed;
            const RunConfiguration run = any_placement(c.run, random);
            CAPTURE(schedule::to_json(schedule::make_plan(c.shape, run)));
            CHECK(same_bits(c.outcome(run, std::move(options)).gradients, expected.gradients));
        }
    }
}

TEST_CASE("not deterministic: offload moves gradients no more than a second run does") {
    for (const KernelCut& cut : kCuts) {
        CAPTURE(name_of(cut.kernels));
        Case c(cut);
        c.run.deterministic = false;
        const trainer::ParameterLayout layout(c.shape);
        const CudaOutcome first = c.outcome(c.run);
        // Sums of dQ in another order, fp32: 1e-6 of a gradient, seen through bf16 roundings that turn at their edges.
        constexpr double kNoise = 5e-3;
        for (const double error : relative_errors(layout, c.outcome(c.run).gradients, first.gradients)) {
            CHECK(error <= kNoise);
        }
        RunConfiguration ring = c.run;
        ring.offload = Offload::kHost;
        ring.hbm_pages.mode = HbmPages::Mode::kRing;
        const auto offloaded = c.outcome(ring);
        for (const double error : relative_errors(layout, offloaded.gradients, first.gradients)) {
            CHECK(error <= kNoise);
        }
    }
}

}  // namespace
}  // namespace oomb::testing
