#include "simulator/step/layer_sample.hpp"

namespace oomb::simulator {
// All gradients are cleared at once.
void LayerSample::take(const schedule::Operation& operation) {
    if (operation.id.kind == schedule::Kind::kZeroGradients) {
        schedule::Operation clears = operation;
        clears.cost = schedule::ElementwiseCost{whole_.all_gradient_bytes()};
        walk_.take(clears);
    } else {
        walk_.take(operation);
    }
}

std::int64_t LayerSample::left_out(const schedule::Repetition& repetition) {
    if (repetition.over != schedule::Repetition::Over::kLayers) {
        return 0;
    }
    const std::int64_t first = repetition.step > 0 ? kLowest : kHighest;
    const double now = clock_.free_at(schedule::Engine::kCompute);
    if (repetition.done == first) {
        begun_ = now;
        before_ = clock_.so_far();
    } else if (repetition.done == first + kSample) {
        sample_.seconds += now - begun_;
        sample_.add(clock_.so_far(), before_, 1.0);
    } else {
        return 0;
    }
    for (const PageClass cached : {PageClass::kKv, PageClass::kKvGradient}) {
        issuer_.residency(cached).empty_cache();
    }
    return 0;
}

Prediction LayerSample::of_all() const {
    Prediction sum = clock_.so_far();
    const double times = static_cast<double>(whole_.model().layers - kLayers) / static_cast<double>(kSample);
    sum.seconds += times * sample_.seconds;
    sum.add(sample_, {}, times);
    return sum;
}

}  // namespace oomb::simulator
