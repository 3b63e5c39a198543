#include "simulator/search/setting_times.hpp"

#include <algorithm>

#include "runtime/schedule/optimizer_schedule.hpp"
#include "simulator/search/parallel.hpp"
#include "simulator/step/step_size.hpp"

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

SettingTimes::Gradients SettingTimes::sampled(const schedule::Plan& plan) const {
    if (std::optional<Prediction> sample = sample_gradients(plan, profile_, lists_)) {
        const bool counts = !host_holds_up(*sample);
        return {*std::move(sample), counts};
    }
    return {walk_gradients(plan, profile_, lists_), true};
}

const Prediction& SettingTimes::gradients_of(const schedule::Plan& plan) {
    simulate({&plan});
    return gradients_.at(key_of(plan)).prediction;
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

double SettingTimes::least_seconds_of(const schedule::Plan& plan) {
    sample({&plan});
    const auto& [gradients, counts] = gradients_.at(key_of(plan));
    const double least =
        counts ? gradients.seconds : (1 - kMostTooLong) * (gradients.seconds - gradients.host_wait_seconds());
    return least + optimizer_of(plan).update.seconds;
}

// Of those whose key is `wanted`.
template <class Wanted, class Make>
void SettingTimes::make_together(const Plans& plans, const Wanted& wanted, const Make& make) {
    std::map<Key, const schedule::Plan*> unknown;
    for (const schedule::Plan* plan : plans) {
        if (const Key key = key_of(*plan); wanted(key)) {
            unknown.emplace(key, plan);
        }
    }
    const std::vector<std::pair<Key, const schedule::Plan*>> list(unknown.begin(), unknown.end());
    std::vector<Gradients> found(list.size());
    for_each_in_parallel(list.size(), [&](std::size_t i) { found[i] = make(*list[i].second); });
    for (std::size_t i = 0; i < list.size(); ++i) {
        const schedule::Plan& plan = *list[i].second;
        if (!found[i].prediction.sampled && can_sample(schedule::StepShape(plan.model, plan.run))) {
            walked_page_uses_ += simulator::walked_page_uses(plan, Layers::kAll);
        }
        gradients_.insert_or_assign(list[i].first, std::move(found[i]));
    }
}

void SettingTimes::sample(const Plans& plans) {
    make_together(
        plans, [&](const Key& key) { return !gradients_.contains(key); },
        [&](const schedule::Plan& plan) { return sampled(plan); });
}

void SettingTimes::simulate(const Plans& plans) {
    sample(plans);
    make_together(
        plans, [&](const Key& key) { return !gradients_.at(key).counts; },
        [&](const schedule::Plan& plan) {
            return Gradients{walk_gradients(plan, profile_, lists_), true};
        });
}

}  // namespace oomb::simulator
