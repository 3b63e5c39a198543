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
    for (int tier = 0; tier < kTiers; ++tier) {
        CAPTURE(name_of(static_cast<Tier>(tier)));
        CHECK(outcome.touched_bytes[tier] == plan.arena_bytes[tier]);
        for (int page_class = 0; page_class < kPageClasses; ++page_class) {
            const auto* pool = plan.pool(static_cast<Tier>(tier), static_cast<PageClass>(page_class));
            CHECK(outcome.most_frames[tier][page_class] == (pool == nullptr ? 0 : pool->frames));
        }
    }
}

TEST_CASE("observed peaks of 90 random runs") {
    RandomSteps random(41,
                       {.layers = 3, .chunks = 5, .pages_per_chunk = 3, .page_tokens = {8, 16}, .any_device = false});
    for (std::uint64_t i = 0; i < 90; ++i) {
        const RandomStep step = random.next();
        switch (step.run.compute) {
            case DType::kF64:
                check_observed<double>(step, i);
                break;
            case DType::kF32:
                check_observed<float>(step, i);
                break;
            default:
                check_observed<BFloat16>(step, i);
        }
    }
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
