#include "simulator/setting_times.hpp"

#include <algorithm>

#include "simulator/parallel.hpp"

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
            plan.resident_shards,
            plan.run.offload};
}

double SettingTimes::seconds_of(const schedule::Plan& plan) {
    const Key key = key_of(plan);
    auto found = seconds_.find(key);
    if (found == seconds_.end()) {
        found = seconds_.emplace(key, simulate_in_larger_pages(plan, profile_, lists_).seconds).first;
    }
    return found->second;
}

void SettingTimes::simulate(const std::vector<const schedule::Plan*>& plans) {
    std::map<Key, const schedule::Plan*> unknown;
    for (const schedule::Plan* plan : plans) {
        if (!seconds_.contains(key_of(*plan))) {
            unknown.emplace(key_of(*plan), plan);
        }
    }
    const std::vector<std::pair<Key, const schedule::Plan*>> list(unknown.begin(), unknown.end());
    std::vector<double> seconds(list.size());
    for_each_in_parallel(list.size(), [&](std::size_t i) {
        seconds[i] = simulate_in_larger_pages(*list[i].second, profile_, lists_).seconds;
    });
    for (std::size_t i = 0; i < list.size(); ++i) {
        seconds_.emplace(list[i].first, seconds[i]);
    }
}

}  // namespace oomb::simulator
