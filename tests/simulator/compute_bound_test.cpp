// The bound against the full walk.
#include "simulator/search/compute_bound.hpp"

#include <doctest/doctest.h>

#include "simulator/step/prediction.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"

namespace oomb::test {

TEST_CASE("what the compute engine does without the optimizer and copies within HBM, on random steps") {
    // Some thousand terms, summed in another order.
    constexpr double kRounding = 1e-10;
    testing::RandomSteps random(701, {.local = true});
    int partly = 0;
    for (int i = 0; i < 2000; ++i) {
        testing::RandomStep step = random.next();
        if (i % 4 == 0) {  // some layers of a chunk
            step.run.keep = Keep::kOutput;
            step.run.kept_pages = {Amount::Mode::kCount, random.between(0, 3 * step.model.layers)};
        }
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        const simulator::Prediction whole = simulator::simulate_step(plan, machine());
        double compute = 0;
        for (int phase = 0; phase < static_cast<int>(schedule::Phase::kOptimizer); ++phase) {
            for (int kind = 0; kind < schedule::kKinds; ++kind) {
                const auto which = static_cast<schedule::Kind>(kind);
                if (which != schedule::Kind::kKeepActivation && which != schedule::Kind::kLoadActivation) {
                    compute += whole.uses[phase][static_cast<int>(schedule::Engine::kCompute)][kind].seconds;
                }
            }
        }
        const double bound = simulator::ComputeBound(step.model, plan.run, machine()).sequence_seconds(plan.run);
        CHECK(bound == doctest::Approx(compute).epsilon(kRounding));
        const double optimizer = simulator::simulate_optimizer(plan, machine()).seconds();
        CHECK(bound + optimizer <= whole.seconds * (1 + kRounding));
        partly += plan.kept_pages() % step.model.layers != 0 ? 1 : 0;
    }
    CHECK(partly > 100);
}

}  // namespace oomb::test
