#include "simulator/search/cut_settings.hpp"

#include <algorithm>

namespace oomb::simulator {
namespace {

constexpr std::int64_t kMostHeldTried = 16;

constexpr Amount kAuto{Amount::Mode::kAuto, 0};
constexpr Amount kAll{Amount::Mode::kAll, 0};

Amount count(std::int64_t n) {
    return {Amount::Mode::kCount, n};
}

RunConfiguration lean_of(const RunConfiguration& asked, const Freedom& freedom, const RunConfiguration& run) {
    RunConfiguration lean = run;
    lean.keep = freedom.keep ? Keep::kNone : asked.keep;
    lean.held_chunks = freedom.held_chunks ? Amount{} : asked.held_chunks;
    lean.kept_pages = asked.kept_pages;
    return lean;
}

}  // namespace

CutSettings::CutSettings(const ModelShape& model, const RunConfiguration& asked, const Freedom& freedom,
                         const RunConfiguration& run)
    : model_(model), asked_(asked), freedom_(freedom), lean_(lean_of(asked, freedom, run)), placement_(model_, lean_) {}

std::vector<RunConfiguration> CutSettings::all() {
    std::vector<RunConfiguration> settings;
    for (const Keep keep : keeps()) {
        RunConfiguration run = lean_;
        run.keep = keep;
        const std::vector<Amount> held_counts_of_keep = held_counts(keep);
        for (const Place& place : places(keep)) {
            run.offload = place.offload;
            run.hbm_pages = place.pages;
            for (const Amount& resident : states()) {
                run.resident_shards = resident;
                for (const Amount& held : held_counts_of_keep) {
                    run.held_chunks = held;
                    for (const Amount& kept : kept_counts(run)) {
                        settings.push_back(run);
                        settings.back().kept_pages = kept;
                    }
                }
            }
        }
    }
    return settings;
}

std::vector<Keep> CutSettings::keeps() const {
    if (!freedom_.keep) {
        return {asked_.keep};
    }
    const bool may_hold =
        freedom_.held_chunks || (asked_.held_chunks.mode == Amount::Mode::kCount && asked_.held_chunks.count == 0);
    return may_hold ? std::vector{Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}
                    : std::vector{Keep::kNone, Keep::kOutput};
}

// What is kept first, or all of the optimizer's states.
std::vector<Amount> CutSettings::states() const {
    return freedom_.optimizer_states && asked_.optimizer ? std::vector{kAuto, kAll}
                                                         : std::vector{asked_.resident_shards};
}

// With every page at home in HBM --offload host is as good as none. A ring leaves HBM to the optimizer's states and all
// that is kept to the host.
std::vector<CutSettings::Place> CutSettings::places(Keep keep) const {
    if (!freedom_.offload && asked_.offload == Offload::kNone) {
        return {{Offload::kNone, asked_.hbm_pages}};
    }
    if (!freedom_.hbm_pages) {
        return {{Offload::kHost, asked_.hbm_pages}};
    }
    std::vector<Place> list = {{Offload::kHost, {HbmPages::Mode::kAuto, 0}}};
    if (keep != Keep::kNone) {
        list.push_back({Offload::kHost, {HbmPages::Mode::kRing, 0}});
    }
    return list;
}

// As many as fit where nothing is kept, and fewer, evenly spread.
std::vector<Amount> CutSettings::held_counts(Keep keep) {
    if (!freedom_.held_chunks) {
        return {asked_.held_chunks};
    }
    if (keeps_input(keep)) {
        return {count(0)};
    }
    RunConfiguration run = lean_;
    run.keep = Keep::kNone;
    const Place place = places(Keep::kNone).front();
    run.offload = place.offload;
    run.hbm_pages = place.pages;
    const std::int64_t all = schedule::most(schedule::StepShape(model_, lean_).chunks(), [&](std::int64_t held) {
        run.held_chunks = count(held);
        return fits(run);
    });
    const std::int64_t steps = std::min(all, kMostHeldTried);
    std::vector<Amount> counts{count(0)};
    for (std::int64_t i = 1; i <= steps; ++i) {
        counts.push_back(count(schedule::divide_up(i * all, steps)));
    }
    return counts;
}

std::vector<Amount> CutSettings::kept_counts(const RunConfiguration& run) {
    if (run.keep == Keep::kNone || !freedom_.kept_pages) {
        return {run.keep == Keep::kNone ? kAll : asked_.kept_pages};
    }
    RunConfiguration most = run;
    most.kept_pages = kAuto;
    const std::int64_t fit = plan_of(most).kept_pages();
    const std::int64_t unit = keeps_input(run.keep) ? model_.layers : 1;
    std::vector<Amount> counts;
    for (std::int64_t part = kKeptParts; part > 0; --part) {
        const std::int64_t n = fit * part / kKeptParts / unit * unit;
        if (n > 0 && (counts.empty() || counts.back().count != n)) {
            counts.push_back(count(n));
        }
    }
    return counts;
}

}  // namespace oomb::simulator
