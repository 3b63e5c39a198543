#include "simulator/layer_sample.hpp"

#include <cmath>

namespace oomb::simulator {
namespace {

// Adds `times` what lies between two moments of a clock.
void add(Prediction& sum, const Prediction& until, const Prediction& since, double times) {
    const auto whole = [&](std::int64_t count) { return std::llround(times * static_cast<double>(count)); };
    sum.exposed_copy_seconds += times * (until.exposed_copy_seconds - since.exposed_copy_seconds);
    sum.list_wait_seconds += times * (until.list_wait_seconds - since.list_wait_seconds);
    for (std::size_t phase = 0; phase < schedule::kPhases; ++phase) {
        sum.phase_seconds[phase] += times * (until.phase_seconds[phase] - since.phase_seconds[phase]);
        for (std::size_t engine = 0; engine < schedule::kEngines; ++engine) {
            for (std::size_t kind = 0; kind < schedule::kKinds; ++kind) {
                const Use &after = until.uses[phase][engine][kind], &before = since.uses[phase][engine][kind];
                if (after.operations == before.operations) {
                    continue;  // as most
                }
                sum.uses[phase][engine][kind] +=
                    {whole(after.operations - before.operations), times * (after.seconds - before.seconds),
                     whole(after.bytes - before.bytes)};
            }
        }
    }
}

}  // namespace

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
        add(sample_, clock_.so_far(), before_, 1.0);
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
    add(sum, sample_, {}, times);
    return sum;
}

}  // namespace oomb::simulator
