#pragma once
// Times of the settings that a search simulates, each simulated once.

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
    // Each on a core of its own; seconds_of() knows them then.
    void simulate(const std::vector<const schedule::Plan*>& plans);
    std::int64_t simulated() const { return static_cast<std::int64_t>(seconds_.size()); }

  private:
    // What the time depends on: cut; what is kept, where, and held; K/V pages and shards in HBM.
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, Keep, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t, Offload>;
    static Key key_of(const schedule::Plan& plan);

    const HardwareProfile& profile_;
    const ListSource lists_;
    std::map<Key, double> seconds_;
};

}  // namespace oomb::simulator
