#pragma once
// Times of the settings that a search simulates. What settings have in common is simulated once.

#include <map>
#include <tuple>
#include <vector>

#include "simulator/prediction.hpp"

namespace oomb::simulator {

// Of plans of one model and one run but for cut, placement and budgets.
class SettingTimes {
  public:
    // `profile` outlives the times. Lists of a model are drawn once per chunk and K.
    SettingTimes(const HardwareProfile& profile, const Locality& locality)
        : profile_(profile), lists_{locality, nullptr, std::make_shared<DrawnLists>()} {}

    double seconds_of(const schedule::Plan& plan);
    // As simulate_in_larger_pages(), up to rounding.
    Prediction prediction_of(const schedule::Plan& plan);
    // Of the optimizer's phase by itself, the least that it adds.
    double optimizer_seconds(const schedule::Plan& plan) { return optimizer_of(plan).seconds; }
    // The gradients of each on a core of its own; the others know them then.
    void simulate(const std::vector<const schedule::Plan*>& plans);
    // Of steps in which compute waits for the host, so that no sample of layers tells their time: in all their layers.
    double walked_page_uses() const { return walked_page_uses_; }
    const ListSource& lists() const { return lists_; }
    std::int64_t simulated() const { return static_cast<std::int64_t>(gradients_.size()); }

  private:
    // What the time of the gradients depends on: cut; what is kept, where, and held; K/V pages in HBM; slots of the
    // ring of optimizer states.
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, Keep, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t, Offload>;
    struct Optimizer {
        double seconds = 0.0;
        Prediction update;
    };
    static Key key_of(const schedule::Plan& plan);
    const Prediction& keep(const schedule::Plan& plan, Prediction gradients);
    const Prediction& gradients_of(const schedule::Plan& plan);
    const Optimizer& optimizer_of(const schedule::Plan& plan);

    const HardwareProfile& profile_;
    const ListSource lists_;
    std::map<Key, Prediction> gradients_;
    double walked_page_uses_ = 0.0;
    std::map<std::int64_t, Optimizer> optimizer_;  // by shards in HBM
};

}  // namespace oomb::simulator
