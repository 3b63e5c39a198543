#pragma once
// Times of the settings that a search simulates. What settings have in common is simulated once.

#include <map>
#include <tuple>
#include <vector>

#include "simulator/step/prediction.hpp"

namespace oomb::simulator {

// Of plans of one model and one run but for cut, placement and budgets.
class SettingTimes {
  public:
    // `profile` outlives the times. Lists of a model are drawn once per chunk and K.
    SettingTimes(const HardwareProfile& profile, const Locality& locality)
        : profile_(profile), lists_{locality, nullptr, std::make_shared<DrawnLists>()} {}

    // Of the seconds of a sample, as a share: docs/prediction.md, "Fewer layers".
    static constexpr double kMostTooLong = 0.08;

    double seconds_of(const schedule::Plan& plan);
    // No more than that, without a walk through all layers: where compute waits for the host in the sample of a step
    // with lists, nothing of that wait, and of the rest what is left when its copies are shown too long
    // (kMostTooLong).
    double least_seconds_of(const schedule::Plan& plan);
    // least_seconds_of() is the time itself. It was asked for before.
    bool knows(const schedule::Plan& plan) const { return gradients_.at(key_of(plan)).counts; }
    // As simulate_in_larger_pages(), up to rounding.
    Prediction prediction_of(const schedule::Plan& plan);
    // Of the optimizer's phase by itself, the least that it adds.
    double optimizer_seconds(const schedule::Plan& plan) { return optimizer_of(plan).seconds; }
    // What seconds_of(), or least_seconds_of(), needs of each, on a core of its own; the others know it then.
    using Plans = std::vector<const schedule::Plan*>;
    void simulate(const Plans& plans);
    void sample(const Plans& plans);
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
    struct Gradients {
        Prediction prediction;
        bool counts = false;  // else a sample that the host holds up
    };
    static Key key_of(const schedule::Plan& plan);
    template <class Wanted, class Make>
    void make_together(const Plans& plans, const Wanted& wanted, const Make& make);
    Gradients sampled(const schedule::Plan& plan) const;
    const Prediction& gradients_of(const schedule::Plan& plan);
    const Optimizer& optimizer_of(const schedule::Plan& plan);

    const HardwareProfile& profile_;
    const ListSource lists_;
    std::map<Key, Gradients> gradients_;
    double walked_page_uses_ = 0.0;
    std::map<std::int64_t, Optimizer> optimizer_;  // by shards in HBM
};

}  // namespace oomb::simulator
