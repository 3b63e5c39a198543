#pragma once
// Which setting of a run takes the least time on a machine: what oomb-plan best prints, and what the programs take for
// what is left to auto.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/schedule/placement.hpp"
#include "simulator/compute_bound.hpp"
#include "simulator/prediction.hpp"
#include "simulator/setting_times.hpp"

namespace oomb::simulator {

// What the search may set; all else stays as the run says.
struct Freedom {
    bool chunk = false, window = false, logit_tile = false;
    bool keep = false, kept_pages = false, held_chunks = false;
    bool offload = false, hbm_pages = false, optimizer_states = false;
};

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
// bounds; all are looked at from there on, or where steps have lists, which take long to simulate, of the best cut the
// eight with the lowest bounds. Deterministic.
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

    // Every setting that could be the fastest when its turn came.
    const std::vector<Setting>& simulated() const { return simulated_; }

  private:
    struct Candidate {
        Setting setting;
        double least_seconds = 0.0;
    };
    struct Place {
        Offload offload = Offload::kNone;
        HbmPages pages;
    };
    class Cut;

    std::vector<RunConfiguration> neighbours(const RunConfiguration& run) const;
    RunConfiguration lean_of(const RunConfiguration& run) const;
    std::vector<Candidate> candidates_of(Cut& cut);
    void downhill(const RunConfiguration& start, std::size_t most_per_cut);
    void visit(const RunConfiguration& run, std::size_t most);
    void report() const;
    std::vector<RunConfiguration> settings_of(Cut& cut) const;
    std::vector<Keep> keeps() const;
    std::vector<Amount> states() const;
    std::vector<Place> places(Keep keep) const;
    std::vector<Amount> held_counts(Cut& cut, Keep keep) const;
    std::vector<Amount> kept_counts(Cut& cut, const RunConfiguration& run) const;
    void polish();
    bool moved(Cut& cut, Amount RunConfiguration::*amount, std::int64_t by);
    void free_hbm();
    std::optional<Candidate> candidate(Cut& cut, const RunConfiguration& run);
    bool try_candidate(Candidate candidate);
    double optimizer_seconds(const schedule::Plan& plan);
    void simulate_together(const std::vector<Candidate>& candidates, std::size_t first);
    bool cannot_win(const Candidate& candidate) const;

    const ModelShape& model_;
    const RunConfiguration asked_;
    const Freedom freedom_;
    const HardwareProfile& profile_;
    Progress progress_;
    SettingTimes times_;
    ComputeBound bound_;
    std::map<std::int64_t, double> optimizer_seconds_;  // by shards in HBM
    std::optional<Setting> best_;
    std::vector<Setting> simulated_;
    std::int64_t cuts_ = 0;
};

// Chunk, window and logit tile, those that are free, halved as far as each can be; nothing where none can.
std::optional<RunConfiguration> halved_cut(const Freedom& freedom, const RunConfiguration& run);

// What the run leaves to auto, where that is --keep or --held-chunks: these, the number of kept pages and the place of
// optimizer states.
Freedom left_to_auto(const RunConfiguration& run);

// The plan of a run as the programs carry it out: make_plan(), but with --device cuda what left_to_auto() names is set
// for the least time on that machine. Where no time can be predicted, or nothing fits, it is make_plan()'s.
schedule::Plan plan_for_time(const ModelShape& model, const RunConfiguration& run, const HardwareProfile& profile,
                             const Locality& locality = default_locality());

}  // namespace oomb::simulator
