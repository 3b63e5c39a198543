#include "trainer/run/learning_rate.hpp"

#include <cmath>
#include <numbers>

namespace oomb::trainer {

double learning_rate_at(const LearningRatePlan& plan, std::int64_t step) {
    if (step <= plan.warmup_steps) {
        return plan.peak * static_cast<double>(step) / static_cast<double>(plan.warmup_steps);
    }
    if (plan.schedule == LearningRateSchedule::kConstant) {
        return plan.peak;
    }
    const auto done = static_cast<double>(step - plan.warmup_steps - 1);
    const auto all = static_cast<double>(plan.steps - plan.warmup_steps);
    return plan.peak * 0.5 * (1.0 + std::cos(std::numbers::pi * done / all));
}

}  // namespace oomb::trainer
