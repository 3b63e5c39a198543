// Plans: what the HBM budget buys, and what does not grow with the context.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::make_plan;
using schedule::Plan;

RunConfiguration offloaded_run(std::int64_t context) {
    RunConfiguration run;
    run.context_tokens = context;
    run.chunk_tokens = 64;
    run.page_tokens = 16;
    run.window_tokens = 128;
    run.logit_tile_tokens = 32;
    run.offload = Offload::kHost;
    return run;
}

TEST_CASE("with a ring of pages and nothing kept, HBM does not grow with the context") {
    const ModelShape model = RandomSteps(4).next().model;
    RunConfiguration run = offloaded_run(1000);
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const Plan first = make_plan(model, run);
    std::int64_t host = first.peak_bytes(Tier::kHost);
    CHECK(first.pool(Tier::kHbm, PageClass::kKv)->frames == 2 * (128 + 64) / 16);  // two windows and two chunks
    CHECK(first.pool(Tier::kHbm, PageClass::kKvGradient)->frames == 2 * (128 + 64) / 16);
    for (const std::int64_t context : {1100, 4096, 1000000}) {
        run.context_tokens = context;
        const Plan plan = make_plan(model, run);
        CHECK(plan.peak_bytes(Tier::kHbm) == first.peak_bytes(Tier::kHbm));
        CHECK(plan.peak_bytes(Tier::kHost) > host);
        host = plan.peak_bytes(Tier::kHost);
    }
}

TEST_CASE("auto takes the most pages that the budget holds, no budget takes all") {
    RandomSteps random(5);
    const ModelShape model = random.next().model;
    RunConfiguration run = offloaded_run(700);
    const Plan all = make_plan(model, run);
    CHECK(all.resident_pages == schedule::StepShape(model, run).total_pages());
    CHECK(all.pool(Tier::kHost, PageClass::kKv) == nullptr);
    CHECK(all.pool(Tier::kHost, PageClass::kKvGradient) == nullptr);
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const std::int64_t least = make_plan(model, run).peak_bytes(Tier::kHbm);
    for (int i = 0; i < 50; ++i) {
        run.hbm_pages.mode = HbmPages::Mode::kAuto;
        run.gpu_memory_bytes = random.between(least, all.peak_bytes(Tier::kHbm) - 1);
        const Plan plan = make_plan(model, run);
        CHECK(plan.peak_bytes(Tier::kHbm) <= run.gpu_memory_bytes);
        CHECK(shortfalls(plan).empty());
        RunConfiguration more = run;
        more.hbm_pages = {HbmPages::Mode::kCount, plan.resident_pages + 1};
        CHECK(make_plan(model, more).peak_bytes(Tier::kHbm) > run.gpu_memory_bytes);
    }
}

TEST_CASE("what does not fit is said by tier, needed and available bytes") {
    const ModelShape model = RandomSteps(6).next().model;
    RunConfiguration run = offloaded_run(700);
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const Plan plan = make_plan(model, run);
    run.gpu_memory_bytes = plan.peak_bytes(Tier::kHbm);
    run.host_memory_bytes = plan.peak_bytes(Tier::kHost);
    CHECK(shortfalls(make_plan(model, run)).empty());
    --run.gpu_memory_bytes;
    --run.host_memory_bytes;
    const auto found = shortfalls(make_plan(model, run));
    REQUIRE(found.size() == 2);
    for (const auto& shortfall : found) {
        CHECK(shortfall.needed_bytes == plan.peak_bytes(shortfall.tier));
        CHECK(shortfall.available_bytes == shortfall.needed_bytes - 1);
    }
}

TEST_CASE("a plan is a function of its arguments") {
    RandomSteps random(7);
    for (int i = 0; i < 20; ++i) {
        const RandomStep step = random.next();
        CHECK(to_json(make_plan(step.model, step.run)) == to_json(make_plan(step.model, step.run)));
    }
}

}  // namespace
}  // namespace oomb::testing
