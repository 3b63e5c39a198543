#include "runtime/core/model_flops.hpp"

#include <doctest/doctest.h>

#include "runtime/schedule/flops.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::Kind;

bool is_gradient_product(Kind kind) {
    switch (kind) {
        case Kind::kLinearQkvWeightGradient:
        case Kind::kLinearOutputWeightGradient:
        case Kind::kLinearGateUpWeightGradient:
        case Kind::kLinearDownWeightGradient:
        case Kind::kLinearHeadWeightGradient:
        case Kind::kLinearQkvInputGradient:
        case Kind::kLinearOutputInputGradient:
        case Kind::kLinearGateUpInputGradient:
        case Kind::kLinearDownInputGradient:
        case Kind::kLinearHeadInputGradient:
            return true;
        default:
            return false;
    }
}

}  // namespace

// Whatever a schedule computes twice, gradients it computes once: products by weight and by input are 4 N per token of
// the 6 N, and its attention backward is five products per pair (the scores again), of which the model counts four and
// two for the forward.
TEST_CASE("equal to what the schedule does once, on random steps") {
    RandomSteps random(9, {.local = true});
    for (int i = 0; i < 100; ++i) {
        const RandomStep step = random.next();
        double products = 0, attention = 0;
        for (const schedule::Operation& operation : operations_of(step.model, step.run)) {
            if (is_gradient_product(operation.id.kind)) {
                products += schedule::flops_of(operation.cost);
            } else if (operation.id.kind == Kind::kAttentionBackward) {
                attention += schedule::flops_of(operation.cost);
            }
        }
        const double expected = products * 6 / 4 + attention * (4 + 2) / 5;
        // Sums of whole numbers below 2^53: only the factors round.
        CHECK(model_flops(step.model, step.run.context_tokens, step.run.local_window, step.run.sinks) ==
              doctest::Approx(expected).epsilon(1e-14));
    }
}

}  // namespace oomb::testing
