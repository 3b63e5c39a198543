// What the plan chooses where it may, against every choice there is.
#include <doctest/doctest.h>

#include <optional>

#include "runtime/schedule/flops.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::make_plan;
using schedule::Plan;
using schedule::StepShape;

constexpr Amount kAuto{Amount::Mode::kAuto, 0};

double flops_of_list(const Plan& plan) {
    double flops = 0;
    for (const auto& operation : operations_of(plan.model, plan.run)) {
        flops += schedule::flops_of(operation.cost);
    }
    return flops;
}

// Every allowed pair of what is kept and how many chunks are held.
template <class Visit>
void for_each_choice(const RandomStep& step, const Visit& visit) {
    const std::int64_t chunks = StepShape(step.model, step.run).chunks();
    for (const Keep keep : {Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}) {
        for (std::int64_t held = 0; held <= (keeps_input(keep) ? 0 : chunks); ++held) {
            RunConfiguration run = step.run;
            run.keep = keep;
            run.held_chunks = {Amount::Mode::kCount, held};
            visit(make_plan(step.model, run));
        }
    }
}

// A step with budgets from less than the least to more than the most.
RandomStep step_with_budgets(RandomSteps& random) {
    RandomStep step = random.next();
    step.run.keep = Keep::kNone;
    step.run.held_chunks = {};
    step.run.kept_pages = random.coin() ? kAuto : step.run.kept_pages;
    step.run.gpu_memory_bytes = step.run.host_memory_bytes = 0;
    const Plan lean = make_plan(step.model, step.run);
    RunConfiguration held = step.run;
    held.held_chunks = {Amount::Mode::kAll, 0};
    const std::int64_t most = make_plan(step.model, held).peak_bytes(Tier::kHbm);
    RunConfiguration ring = step.run;
    if (ring.offload == Offload::kHost) {
        ring.hbm_pages = {HbmPages::Mode::kRing, 0};
    }
    const Plan least = make_plan(step.model, ring);
    step.run.gpu_memory_bytes = random.between(least.peak_bytes(Tier::kHbm) * 9 / 10, most);
    step.run.host_memory_bytes =
        random.between(least.peak_bytes(Tier::kHost) * 9 / 10, least.peak_bytes(Tier::kHost) * 2);
    return step;
}

TEST_CASE("auto takes the fewest FLOPs of all that fits, then the least memory; else nothing") {
    RandomSteps random(31);
    int lean = 0, held = 0, kept = 0, both = 0, none_fits = 0;
    for (int i = 0; i < 150; ++i) {
        RandomStep step = step_with_budgets(random);
        std::optional<std::pair<double, std::int64_t>> best;
        for_each_choice(step, [&](const Plan& plan) {
            if (shortfalls(plan).empty()) {
                const std::pair found(flops_of_list(plan), plan.peak_bytes(Tier::kHbm) + plan.peak_bytes(Tier::kHost));
                best = best ? std::min(*best, found) : found;
            }
        });
        step.run.keep = Keep::kAuto;
        step.run.held_chunks = kAuto;
        const Plan plan = make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        const bool holds = StepShape(plan.model, plan.run).held_chunks() > 0, keeps = plan.run.keep != Keep::kNone;
        CHECK(shortfalls(plan).empty() == best.has_value());
        if (!best) {
            CHECK_FALSE((holds || keeps));
            ++none_fits;
            continue;
        }
        CHECK(flops_of_list(plan) == doctest::Approx(best->first).epsilon(1e-12));
        lean += !holds && !keeps;
        held += holds && !keeps;
        kept += !holds && keeps;
        both += holds && keeps;
    }
    // The random budgets meet every case.
    CHECK(lean > 0);
    CHECK(held > 0);
    CHECK(kept > 0);
    CHECK(both > 0);
    CHECK(none_fits > 0);
}

TEST_CASE("without budgets everything is held") {
    RandomSteps random(32);
    for (int i = 0; i < 20; ++i) {
        RandomStep step = random.next();
        step.model.layers += 1;  // one layer alone computes nothing twice
        step.run.keep = Keep::kAuto;
        step.run.held_chunks = kAuto;
        step.run.gpu_memory_bytes = 0;
        const StepShape shape(step.model, make_plan(step.model, step.run).run);
        CHECK(shape.held_chunks() == shape.chunks());
    }
}

TEST_CASE("only what is asked to be decided is") {
    RandomSteps random(33);
    for (int i = 0; i < 60; ++i) {
        const RandomStep step = step_with_budgets(random);
        RunConfiguration run = step.run;
        run.keep = random.pick<Keep>({Keep::kInput, Keep::kOutput});
        run.held_chunks = kAuto;
        const Plan keeps_as_asked = make_plan(step.model, run);
        CHECK(keeps_as_asked.run.keep == run.keep);
        CHECK(keeps_as_asked.asked.held_chunks.mode == Amount::Mode::kAuto);
        run.keep = Keep::kAuto;
        run.held_chunks = {Amount::Mode::kCount, random.between(1, 3)};
        const Plan holds_as_asked = make_plan(step.model, run);
        CHECK(holds_as_asked.run.held_chunks.count == run.held_chunks.count);
        CHECK_FALSE(keeps_input(holds_as_asked.run.keep));
    }
}

}  // namespace
}  // namespace oomb::testing
