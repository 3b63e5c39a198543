#include "simulator/setting_times.hpp"

#include <algorithm>

#include "runtime/schedule/optimizer_schedule.hpp"
#include "simulator/parallel.hpp"
#include "simulator/step_size.hpp"

namespace oomb::simulator {

// Different words may say the same: where all optimizer states fit auto is hbm, a tile longer than a chunk is the
// chunk.
SettingTimes::Key SettingTimes::key_of(const schedule::Plan& plan) {
    const schedule::StepShape step(plan.model, plan.run);
    const std::int64_t chunk = step.longest_chunk(), tile = std::min(plan.run.logit_tile_tokens, chunk);
    return {chunk,
            plan.run.window_tokens,
            tile,
            plan.run.keep,
            plan.kept_hbm,
            plan.kept_host,
            step.held_chunks(),
            plan.resident_pages,
            schedule::optimizer_shards(step).ring_slots(),
            plan.run.offload};
}

const Prediction& SettingTimes::gradients_of(const schedule::Plan& plan) {
    const auto found = gradients_.find(key_of(plan));
    return found != gradients_.end() ? found->second : keep(plan, simulate_gradients(plan, profile_, lists_));
}

const Prediction& SettingTimes::keep(const schedule::Plan& plan, Prediction gradients) {
    if (!gradients.sampled && can_sample(schedule::StepShape(plan.model, plan.run))) {
        walked_page_uses_ += simulator::walked_page_uses(plan, Layers::kAll);
    }
    return gradients_.emplace(key_of(plan), std::move(gradients)).first->second;
}

const SettingTimes::Optimizer& SettingTimes::optimizer_of(const schedule::Plan& plan) {
    const auto [found, is_new] = optimizer_.try_emplace(plan.resident_shards);
    if (is_new) {
        const OptimizerPrediction phase = simulate_optimizer(plan, profile_);
        found->second = {phase.seconds(), phase.update};
    }
    return found->second;
}

double SettingTimes::seconds_of(const schedule::Plan& plan) {
    return gradients_of(plan).seconds + optimizer_of(plan).update.seconds;
}

Prediction SettingTimes::prediction_of(const schedule::Plan& plan) {
    Prediction whole = gradients_of(plan);
    whole += optimizer_of(plan).update;
    return whole;
}

void SettingTimes::simulate(const std::vector<const schedule::Plan*>& plans) {
    std::map<Key, const schedule::Plan*> unknown;
    for (const schedule::Plan* plan : plans) {
        if (!gradients_.contains(key_of(*plan))) {
            unknown.emplace(key_of(*plan), plan);
        }
    }
    const std::vector<std::pair<Key, const schedule::Plan*>> list(unknown.begin(), unknown.end());
    std::vector<Prediction> found(list.size());
    for_each_in_parallel(list.size(),
                         [&](std::size_t i) { found[i] = simulate_gradients(*list[i].second, profile_, lists_); });
    for (std::size_t i = 0; i < list.size(); ++i) {
        keep(*list[i].second, std::move(found[i]));
    }
}

}  // namespace oomb::simulator
