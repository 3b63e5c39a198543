#pragma once
// Which setting of a run takes the least time on a machine: what oomb-plan best prints, and what the programs take for
// what is left to auto.

#include <functional>
#include <optional>
#include <vector>

#include "simulator/search/compute_bound.hpp"
#include "simulator/search/cut_settings.hpp"
#include "simulator/search/freedom.hpp"
#include "simulator/search/setting_times.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::simulator {

// A setting and its predicted time. Of `run` at most where K/V pages and optimizer states lie is auto, so that it can
// be typed as flags; its plan is make_plan(model, run).
struct Setting {
    RunConfiguration run;
    schedule::Plan plan;
    double seconds = 0.0;
};

// Settings whose times differ by less than this share count as equal, the one that was found first stays: far less
// than what predictions are off by.
inline constexpr double kEqualTimes = 1e-3;

// How the sequence is cut: from the run's own cut downhill, chunk, window and logit tile doubled or halved one at a
// time as long as that helps. Within a cut: every kind of keeping, held chunks, place of optimizer states and of K/V
// pages, with as many kept pages as fit and with fewer; at the end more and fewer in small steps. All that cannot be
// faster than the best so far, because the compute engine alone takes longer, is left out (ComputeBound); the others
// are simulated in larger pages. The way to the best cut is found with the two settings of each that have the lowest
// bounds, and all are looked at from there on; where steps have lists, which take long to simulate, with one of each,
// and of the best cut the eight with the lowest bounds. Of a step with lists a sample of its layers comes first: where
// compute waits for the host it is walked through only if it could still win (SettingTimes). Deterministic.
class Search {
  public:
    // `progress` is told the number of cuts and of simulated settings so far. Top-K: lists come from the model of
    // `locality`, for another cut has others. Throws FileError as ComputeBound.
    using Progress = std::function<void(std::int64_t cuts, std::int64_t simulated)>;
    Search(const ModelShape& model, const RunConfiguration& asked, const Freedom& freedom,
           const HardwareProfile& profile, Progress progress = {}, const Locality& locality = default_locality());

    // The fastest setting within these budgets, nothing where none fits. Of settings with equal times the one whose K/V
    // pages leave HBM free. Searching again costs less.
    std::optional<Setting> best(std::int64_t gpu_memory_bytes, std::int64_t host_memory_bytes);

    // The fastest of the same cut that keeps something else, or holds chunks where the best holds none or the other way
    // round: of those the two with the lowest bounds are simulated. Nothing where none fits, or nothing is free.
    std::optional<Setting> next_choice();

    // The fastest of those with another chunk or window that could be the fastest when their turn came.
    std::optional<Setting> next_cut();

    // predict_step() of plans that differ from what was asked as settings do, from what the search has simulated where
    // it has; of the others each on a core of its own.
    std::vector<Prediction> predictions_of(const std::vector<const schedule::Plan*>& plans);

    // Compute waits for the host in so many settings, whose steps then take long to simulate, that no further cuts are
    // looked at.
    bool gives_up() const;

  private:
    struct Candidate {
        Setting setting;
        double least_seconds = 0.0;
    };

    std::vector<Candidate> candidates_of(CutSettings& cut);
    void downhill(const RunConfiguration& start, std::size_t most_per_cut);
    void visit(const RunConfiguration& run, std::size_t most);
    void report() const;
    void polish();
    bool moved(CutSettings& cut, Amount RunConfiguration::*amount, std::int64_t by);
    void free_hbm();
    std::optional<Candidate> candidate(CutSettings& cut, const RunConfiguration& run);
    bool try_candidate(Candidate candidate);
    bool walk_if_it_can_win(Candidate candidate);
    void settle();
    const Setting* leader() const;
    void simulate_together(const std::vector<Candidate>& candidates, std::size_t first, std::size_t most);
    void take_if_faster(Setting& one, std::optional<Setting>& fastest);
    bool cannot_win(double least_seconds) const;

    const ModelShape& model_;
    const RunConfiguration asked_;
    const Freedom freedom_;
    const HardwareProfile& profile_;
    Progress progress_;
    SettingTimes times_;
    ComputeBound bound_;
    std::optional<Setting> best_;
    // As long as there is no best: settings of steps that would have to be walked through in all their layers.
    std::vector<Candidate> waiting_;
    std::vector<Setting> tried_;  // could be the fastest when their turn came
    std::int64_t cuts_ = 0;
};

// The plan of a run as the programs carry it out: make_plan(), but with --device cuda what left_to_auto() names is set
// for the least time on that machine. Where no time can be predicted, or nothing fits, it is make_plan()'s.
schedule::Plan plan_for_time(const ModelShape& model, const RunConfiguration& run, const HardwareProfile& profile,
                             const Locality& locality = default_locality());

}  // namespace oomb::simulator
