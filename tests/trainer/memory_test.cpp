// The bytes and frames that a step really touches are those of its plan, to the byte.

#include "tests/schedule/random_step.hpp"
#include "tests/trainer/step_fixture.hpp"

namespace oomb::testing {
namespace {

template <class T>
void check_observed(const RandomStep& step, std::uint64_t seed) {
    const schedule::Plan plan = schedule::make_plan(step.model, step.run);
    CAPTURE(to_json(plan));
    const auto weights = random_weights(trainer::ParameterLayout(step.model));
    const std::vector<TestSequence> sequences = {random_sequence(step.run.context_tokens, step.model.vocab, seed)};
    const auto outcome =
        run_step<T>(plan, weights, sequences, {.order = trainer::CpuBackendOptions::Order::kShuffled, .seed = seed});
    // Which gradient pages are ever born depends on what lists name.
    const bool selects = schedule::StepShape(plan.model, plan.run).selects();
    for (int tier = 0; tier < kTiers; ++tier) {
        CAPTURE(name_of(static_cast<Tier>(tier)));
        const auto* gradients = plan.pool(static_cast<Tier>(tier), PageClass::kKvGradient);
        const std::int64_t unsure = selects && gradients != nullptr ? gradients->total_bytes() : 0;
        CHECK(outcome.touched_bytes[tier] <= plan.arena_bytes[tier]);
        CHECK(outcome.touched_bytes[tier] >= plan.arena_bytes[tier] - unsure);
        for (int page_class = 0; page_class < kPageClasses; ++page_class) {
            const auto* pool = plan.pool(static_cast<Tier>(tier), static_cast<PageClass>(page_class));
            const std::int64_t planned = pool == nullptr ? 0 : pool->frames;
            const bool bound = selects && static_cast<PageClass>(page_class) == PageClass::kKvGradient;
            CHECK(outcome.most_frames[tier][page_class] <= planned);
            CHECK((outcome.most_frames[tier][page_class] == planned || bound));
        }
    }
}

void check_observed(const RandomStep& step, std::uint64_t seed) {
    switch (step.run.compute) {
        case DType::kF64:
            return check_observed<double>(step, seed);
        case DType::kF32:
            return check_observed<float>(step, seed);
        default:
            return check_observed<BFloat16>(step, seed);
    }
}

TEST_CASE("observed peaks of random runs, dense ones and ones of which half have top-K pages") {
    for (const bool top_k : {false, true}) {
        RandomSteps random(41, {.layers = 3,
                                .chunks = top_k ? 7 : 5,
                                .pages_per_chunk = 3,
                                .page_tokens = {8, 16},
                                .any_device = false,
                                .top_k = top_k});
        for (std::uint64_t i = 0; i < 90; ++i) {
            check_observed(random.next(), i);
        }
    }
}

TEST_CASE("observed peaks of random runs of which half have sliding windows") {
    RandomSteps random(
        43,
        {.layers = 3, .chunks = 7, .pages_per_chunk = 3, .page_tokens = {8, 16}, .any_device = false, .local = true});
    for (std::uint64_t i = 0; i < 140; ++i) {
        check_observed(random.next(), i);
    }
}

TEST_CASE("with a sliding window, gradient pages on the host do not grow with the context") {
    RunConfiguration run = small_run(96, 16);
    run.attention = AttentionMode::kLocal;
    run.local_window = 24;
    run.sinks = 8;
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const auto frames = [&](std::int64_t context) {
        run.context_tokens = context;
        return schedule::make_plan(small_shape(), run).pool(Tier::kHost, PageClass::kKvGradient)->frames;
    };
    // Of each layer three pages of history and the sinks; of the layer at work the chunk's own as well.
    CHECK(frames(96) == 2 * (3 + 1) + 2);
    CHECK(frames(960) == frames(96));
}

TEST_CASE("with offload and a ring, the observed HBM peak does not depend on the context") {
    RunConfiguration run = small_run(64, 16);
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    std::int64_t hbm = 0, host = 0;
    for (const std::int64_t context : {64, 131, 240}) {
        run.context_tokens = context;
        const schedule::Plan plan = schedule::make_plan(small_shape(), run);
        const auto weights = random_weights(trainer::ParameterLayout(small_shape()));
        const auto outcome = run_step<double>(plan, weights, {random_sequence(context, 50, 1)});
        CHECK((hbm == 0 || outcome.touched_bytes[0] == hbm));
        CHECK(outcome.touched_bytes[1] > host);
        hbm = outcome.touched_bytes[0];
        host = outcome.touched_bytes[1];
    }
}

}  // namespace
}  // namespace oomb::testing
