#include "simulator/search.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "runtime/core/error.hpp"

namespace oomb::simulator {
namespace {

constexpr std::int64_t kMostHeldTried = 16;
constexpr std::int64_t kKeptParts = 4;       // of the kept pages that fit, so many parts are tried
constexpr std::int64_t kLeastKeptPart = 64;  // and then steps down to this part of what the best keeps

constexpr std::size_t kScouted = 2;     // settings that say what a cut is worth
constexpr std::size_t kMostListed = 8;  // of a cut whose steps have lists, which take long to simulate

constexpr Amount kAuto{Amount::Mode::kAuto, 0};
constexpr Amount kAll{Amount::Mode::kAll, 0};

Amount count(std::int64_t n) {
    return {Amount::Mode::kCount, n};
}

auto cut_of(const RunConfiguration& run) {
    return std::tuple(run.chunk_tokens, run.window_tokens, run.logit_tile_tokens);
}

}  // namespace

// One cut of the sequence, whose plans share their layouts.
class Search::Cut {
  public:
    Cut(const ModelShape& model, const RunConfiguration& run) : run_(run), model_(model), placement_(model_, run_) {}

    const RunConfiguration& run() const { return run_; }
    schedule::Plan plan_of(const RunConfiguration& run) { return placement_.plan_of(run); }
    bool fits(const RunConfiguration& run) { return shortfalls(plan_of(run)).empty(); }
    std::int64_t layers() const { return model_.layers; }
    std::int64_t chunks() const { return schedule::StepShape(model_, run_).chunks(); }

  private:
    const RunConfiguration run_;
    const ModelShape& model_;
    schedule::Placement placement_;
};

Search::Search(const ModelShape& model, const RunConfiguration& asked, const Freedom& freedom,
               const HardwareProfile& profile, Progress progress, const Locality& locality)
    : model_(model),
      asked_(asked),
      freedom_(freedom),
      profile_(profile),
      progress_(std::move(progress)),
      times_(profile, locality),
      bound_(model, asked, profile) {}

std::optional<Setting> Search::best(std::int64_t gpu_memory_bytes, std::int64_t host_memory_bytes) {
    RunConfiguration start = best_ ? best_->run : asked_;
    start.gpu_memory_bytes = gpu_memory_bytes;
    start.host_memory_bytes = host_memory_bytes;
    const bool knows_the_way = best_.has_value();
    best_.reset();
    if (!knows_the_way) {
        downhill(start, kScouted);
    }
    if (best_ || knows_the_way) {
        const RunConfiguration from = best_ ? best_->run : start;
        if (schedule::StepShape(model_, from).selects()) {
            visit(from, kMostListed);
            downhill(from, knows_the_way ? 1 : kScouted);
            if (best_ && cut_of(best_->run) != cut_of(from)) {
                visit(best_->run, kMostListed);
            }
        } else {
            downhill(from, std::numeric_limits<std::size_t>::max());
        }
    }
    if (best_) {
        polish();
        free_hbm();
        best_->plan = schedule::make_plan(model_, best_->run);
    }
    return best_;
}

// From this cut, or from a smaller one where nothing of it fits, to the next one that is better.
void Search::downhill(const RunConfiguration& start, std::size_t most_per_cut) {
    std::set<decltype(cut_of(start))> seen{cut_of(start)};
    visit(start, most_per_cut);
    for (std::optional<RunConfiguration> smaller = halved_cut(freedom_, start); !best_ && smaller;
         smaller = halved_cut(freedom_, *smaller)) {
        seen.insert(cut_of(*smaller));
        visit(*smaller, most_per_cut);
    }
    for (bool better = best_.has_value(); better;) {
        better = false;
        const RunConfiguration from = best_->run;
        for (const RunConfiguration& next : neighbours(from)) {
            if (!better && seen.insert(cut_of(next)).second) {
                visit(next, most_per_cut);
                better = cut_of(best_->run) != cut_of(from);
            }
        }
    }
}

std::vector<RunConfiguration> Search::neighbours(const RunConfiguration& run) const {
    std::vector<RunConfiguration> list;
    const auto add = [&](bool free, std::int64_t RunConfiguration::*tokens, std::int64_t value) {
        // More than the sequence is as good as the sequence.
        if (free && value > 0 && value < 2 * run.context_tokens) {
            list.push_back(run);
            list.back().*tokens = value;
        }
    };
    for (const bool larger : {true, false}) {
        const auto changed = [&](std::int64_t tokens, std::int64_t unit) {
            return larger ? 2 * tokens : tokens / 2 % unit == 0 ? tokens / 2 : 0;
        };
        add(freedom_.chunk, &RunConfiguration::chunk_tokens, changed(run.chunk_tokens, run.page_tokens));
        add(freedom_.window, &RunConfiguration::window_tokens, changed(run.window_tokens, run.page_tokens));
        add(freedom_.logit_tile, &RunConfiguration::logit_tile_tokens, changed(run.logit_tile_tokens, 1));
    }
    return list;
}

RunConfiguration Search::lean_of(const RunConfiguration& run) const {
    RunConfiguration lean = run;
    lean.keep = freedom_.keep ? Keep::kNone : asked_.keep;
    lean.held_chunks = freedom_.held_chunks ? Amount{} : asked_.held_chunks;
    lean.kept_pages = asked_.kept_pages;
    return lean;
}

void Search::visit(const RunConfiguration& run, std::size_t most) {
    const RunConfiguration lean = lean_of(run);
    try {
        const schedule::Plan plan = schedule::make_plan(model_, lean);
        if (why_unpredictable(plan, profile_) || is_slow_to_predict(plan)) {
            return;
        }
    } catch (const UsageError&) {  // more chunks or windows than there may be
        return;
    }
    ++cuts_;
    Cut cut(model_, lean);
    const std::size_t before = simulated_.size();
    std::vector<Candidate> candidates = candidates_of(cut);
    const bool selects = schedule::StepShape(model_, lean).selects();  // else a thread takes longer to begin
    for (std::size_t i = 0; i < candidates.size() && simulated_.size() - before < most; ++i) {
        if (selects && i % kScouted == 0) {
            simulate_together(candidates, i);
        }
        try_candidate(std::move(candidates[i]));
    }
    report();
}

// The next ones from `first` on that can be faster than the best.
void Search::simulate_together(const std::vector<Candidate>& candidates, std::size_t first) {
    std::vector<const schedule::Plan*> plans;
    for (std::size_t i = first; i < std::min(first + kScouted, candidates.size()); ++i) {
        if (!cannot_win(candidates[i])) {
            plans.push_back(&candidates[i].setting.plan);
        }
    }
    times_.simulate(plans);
    report();
}

// In the order of their bounds.
std::vector<Search::Candidate> Search::candidates_of(Cut& cut) {
    std::vector<Candidate> candidates;
    for (const RunConfiguration& one : settings_of(cut)) {
        if (std::optional<Candidate> found = candidate(cut, one)) {
            candidates.push_back(std::move(*found));
        }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.least_seconds < b.least_seconds; });
    return candidates;
}

std::optional<Setting> Search::next_choice() {
    std::optional<Setting> next;
    if (!best_) {
        return next;
    }
    const auto holds = [](const RunConfiguration& run) { return to_text(run.held_chunks) != "0"; };
    Cut cut(model_, lean_of(best_->run));
    std::size_t tried = 0;
    for (Candidate& one : candidates_of(cut)) {
        const RunConfiguration& run = one.setting.run;
        if (tried < kScouted && (run.keep != best_->run.keep || holds(run) != holds(best_->run))) {
            ++tried;
            one.setting.seconds = times_.seconds_of(one.setting.plan);
            if (!next || one.setting.seconds < next->seconds) {
                next = std::move(one.setting);
            }
        }
    }
    return next;
}

std::vector<RunConfiguration> Search::settings_of(Cut& cut) const {
    std::vector<RunConfiguration> settings;
    for (const Keep keep : keeps()) {
        RunConfiguration run = cut.run();
        run.keep = keep;
        const std::vector<Amount> held_counts_of_keep = held_counts(cut, keep);
        for (const Place& place : places(keep)) {
            run.offload = place.offload;
            run.hbm_pages = place.pages;
            for (const Amount& resident : states()) {
                run.resident_shards = resident;
                for (const Amount& held : held_counts_of_keep) {
                    run.held_chunks = held;
                    for (const Amount& kept : kept_counts(cut, run)) {
                        settings.push_back(run);
                        settings.back().kept_pages = kept;
                    }
                }
            }
        }
    }
    return settings;
}

std::vector<Keep> Search::keeps() const {
    if (!freedom_.keep) {
        return {asked_.keep};
    }
    const bool may_hold =
        freedom_.held_chunks || (asked_.held_chunks.mode == Amount::Mode::kCount && asked_.held_chunks.count == 0);
    return may_hold ? std::vector{Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}
                    : std::vector{Keep::kNone, Keep::kOutput};
}

// What is kept first, or all of the optimizer's states.
std::vector<Amount> Search::states() const {
    return freedom_.optimizer_states && asked_.optimizer ? std::vector{kAuto, kAll}
                                                         : std::vector{asked_.resident_shards};
}

// With every page at home in HBM --offload host is as good as none. A ring leaves HBM to the optimizer's states and all
// that is kept to the host.
std::vector<Search::Place> Search::places(Keep keep) const {
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
std::vector<Amount> Search::held_counts(Cut& cut, Keep keep) const {
    if (!freedom_.held_chunks) {
        return {asked_.held_chunks};
    }
    if (keeps_input(keep)) {
        return {count(0)};
    }
    RunConfiguration run = cut.run();
    run.keep = Keep::kNone;
    const Place place = places(Keep::kNone).front();
    run.offload = place.offload;
    run.hbm_pages = place.pages;
    const std::int64_t all = schedule::most(cut.chunks(), [&](std::int64_t held) {
        run.held_chunks = count(held);
        return cut.fits(run);
    });
    const std::int64_t steps = std::min(all, kMostHeldTried);
    std::vector<Amount> counts{count(0)};
    for (std::int64_t i = 1; i <= steps; ++i) {
        counts.push_back(count(schedule::divide_up(i * all, steps)));
    }
    return counts;
}

std::vector<Amount> Search::kept_counts(Cut& cut, const RunConfiguration& run) const {
    if (run.keep == Keep::kNone || !freedom_.kept_pages) {
        return {run.keep == Keep::kNone ? kAll : asked_.kept_pages};
    }
    RunConfiguration most = run;
    most.kept_pages = kAuto;
    const std::int64_t fit = cut.plan_of(most).kept_pages();
    const std::int64_t unit = keeps_input(run.keep) ? cut.layers() : 1;
    std::vector<Amount> counts;
    for (std::int64_t part = kKeptParts; part > 0; --part) {
        const std::int64_t n = fit * part / kKeptParts / unit * unit;
        if (n > 0 && (counts.empty() || counts.back().count != n)) {
            counts.push_back(count(n));
        }
    }
    return counts;
}

std::optional<Search::Candidate> Search::candidate(Cut& cut, const RunConfiguration& run) {
    Candidate found{{run, cut.plan_of(run), 0.0}, 0.0};
    if (!shortfalls(found.setting.plan).empty()) {
        return std::nullopt;
    }
    found.least_seconds = bound_.sequence_seconds(found.setting.plan.run) + optimizer_seconds(found.setting.plan);
    return found;
}

double Search::optimizer_seconds(const schedule::Plan& plan) {
    const auto [found, is_new] = optimizer_seconds_.emplace(plan.resident_shards, 0.0);
    if (is_new) {
        found->second = simulate_optimizer(plan, profile_).seconds;
    }
    return found->second;
}

bool Search::cannot_win(const Candidate& candidate) const {
    return best_ && candidate.least_seconds >= best_->seconds * (1 - kEqualTimes);
}

void Search::report() const {
    if (progress_) {
        progress_(cuts_, times_.simulated());
    }
}

// True: it is the best now.
bool Search::try_candidate(Candidate candidate) {
    if (cannot_win(candidate)) {
        return false;
    }
    report();
    candidate.setting.seconds = times_.seconds_of(candidate.setting.plan);
    simulated_.push_back(candidate.setting);
    if (best_ && candidate.setting.seconds >= best_->seconds * (1 - kEqualTimes)) {
        return false;
    }
    best_ = std::move(candidate.setting);
    return true;
}

// From the best setting on: kept pages one way or the other by ever smaller steps, held chunks by one.
void Search::polish() {
    Cut cut(model_, best_->run);
    const std::int64_t unit = keeps_input(best_->run.keep) ? cut.layers() : 1;
    if (freedom_.kept_pages && best_->run.keep != Keep::kNone) {
        const std::int64_t pages = best_->plan.kept_pages();
        const std::int64_t least = std::max(unit, pages / kLeastKeptPart);
        for (std::int64_t step = std::max(least, pages / (2 * kKeptParts)) / unit * unit; step >= least;
             step = step / 2 / unit * unit) {
            while (moved(cut, &RunConfiguration::kept_pages, step) ||
                   moved(cut, &RunConfiguration::kept_pages, -step)) {
            }
        }
    }
    if (freedom_.held_chunks && !keeps_input(best_->run.keep)) {
        while (moved(cut, &RunConfiguration::held_chunks, 1) || moved(cut, &RunConfiguration::held_chunks, -1)) {
        }
    }
}

bool Search::moved(Cut& cut, Amount RunConfiguration::*amount, std::int64_t by) {
    RunConfiguration run = best_->run;
    if ((run.*amount).mode != Amount::Mode::kCount || (run.*amount).count + by < 0) {
        return false;
    }
    (run.*amount).count += by;
    std::optional<Candidate> found = candidate(cut, run);
    const bool differs = found && (found->setting.plan.kept_pages() != best_->plan.kept_pages() ||
                                   amount != &RunConfiguration::kept_pages);  // not more than there are
    return differs && try_candidate(std::move(*found));
}

// K/V pages in HBM that save no time are taken out of it.
void Search::free_hbm() {
    if (!freedom_.hbm_pages || best_->run.offload == Offload::kNone ||
        best_->run.hbm_pages.mode != HbmPages::Mode::kAuto) {
        return;
    }
    Setting freed = *best_;
    freed.run.hbm_pages = {HbmPages::Mode::kCount, 0};
    freed.plan = schedule::make_plan(model_, freed.run);
    if (!shortfalls(freed.plan).empty()) {
        return;
    }
    freed.seconds = times_.seconds_of(freed.plan);
    if (freed.seconds <= best_->seconds * (1 + kEqualTimes)) {
        best_ = std::move(freed);
    }
}

}  // namespace oomb::simulator
