#pragma once
// Learning rate over the steps of a run.

#include <cstdint>

namespace oomb::trainer {

enum class LearningRateSchedule : std::uint8_t { kConstant, kCosine };

struct LearningRatePlan {
    double peak = 0.0;
    std::int64_t warmup_steps = 0;  // step s <= warmup has peak * s / warmup
    std::int64_t steps = 0;         // of the whole run
    LearningRateSchedule schedule = LearningRateSchedule::kCosine;
};

// Of step 1 .. steps. Cosine: after the warm-up half a cosine from the peak down, which would reach 0 one step after
// the last.
double learning_rate_at(const LearningRatePlan& plan, std::int64_t step);

}  // namespace oomb::trainer
