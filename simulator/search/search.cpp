#include "simulator/search/search.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "runtime/core/error.hpp"
#include "simulator/search/cuts.hpp"
#include "simulator/search/parallel.hpp"
#include "simulator/step/step_size.hpp"

namespace oomb::simulator {
namespace {

constexpr std::int64_t kLeastKeptPart = 64;  // steps go down to this part of what the best keeps

constexpr std::size_t kScouted = 2;          // settings that say what a cut is worth
constexpr std::size_t kMostListed = 8;       // of a cut whose steps have lists, which take long to simulate
constexpr double kMostWalkedPageUses = 3e8;  // of steps that are walked through in all their layers: some ten seconds

}  // namespace

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
        downhill(start, schedule::StepShape(model_, start).selects() ? 1 : kScouted);
    }
    if (best_ || knows_the_way) {
        const RunConfiguration from = best_ ? best_->run : start;
        if (schedule::StepShape(model_, from).selects()) {
            visit(from, kMostListed);
            downhill(from, 1);
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
    std::set<CutTokens> seen{cut_of(start)};
    visit(start, most_per_cut);
    for (std::optional<RunConfiguration> smaller = halved_cut(freedom_, start); leader() == nullptr && smaller;
         smaller = halved_cut(freedom_, *smaller)) {
        seen.insert(cut_of(*smaller));
        visit(*smaller, most_per_cut);
    }
    for (bool better = leader() != nullptr; better;) {
        better = false;
        const RunConfiguration from = leader()->run;
        for (const RunConfiguration& next : neighbouring_cuts(freedom_, from)) {
            if (!better && seen.insert(cut_of(next)).second) {
                visit(next, most_per_cut);
                better = cut_of(leader()->run) != cut_of(from);
            }
        }
        if (!better) {
            settle();
            better = cut_of(best_->run) != cut_of(from);
        }
    }
}

// The best so far, or what could be the fastest of those that wait for one to be compared with.
const Setting* Search::leader() const {
    const auto first = std::min_element(waiting_.begin(), waiting_.end(),
                                        [](const auto& a, const auto& b) { return a.least_seconds < b.least_seconds; });
    return best_ ? &*best_ : first != waiting_.end() ? &first->setting : nullptr;
}

// Those that wait are compared, the most promising one first.
void Search::settle() {
    std::vector<Candidate> waiting = std::exchange(waiting_, {});
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const auto& a, const auto& b) { return a.least_seconds < b.least_seconds; });
    for (Candidate& one : waiting) {
        if (!best_ || !gives_up()) {
            walk_if_it_can_win(std::move(one));
        }
    }
}

void Search::visit(const RunConfiguration& run, std::size_t most) {
    CutSettings cut(model_, asked_, freedom_, run);
    try {
        const schedule::Plan plan = schedule::make_plan(model_, cut.lean());
        if (why_unpredictable(plan, profile_) || is_slow_to_predict(plan) || gives_up()) {
            return;
        }
    } catch (const UsageError&) {  // more chunks or windows than there may be
        return;
    }
    ++cuts_;
    const std::size_t before = tried_.size();
    std::vector<Candidate> candidates = candidates_of(cut);
    const bool selects = schedule::StepShape(model_, cut.lean()).selects();  // else a thread takes longer to begin
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const std::size_t left = most - (tried_.size() - before);
        if (left == 0) {
            break;
        }
        if (selects && i % kScouted == 0) {
            simulate_together(candidates, i, std::min(kScouted, left));
        }
        try_candidate(std::move(candidates[i]));
    }
    report();
}

bool Search::gives_up() const {
    return times_.walked_page_uses() > kMostWalkedPageUses;
}

// The next ones from `first` on, `most` of them, that can be faster than the best.
void Search::simulate_together(const std::vector<Candidate>& candidates, std::size_t first, std::size_t most) {
    SettingTimes::Plans plans;
    for (std::size_t i = first; i < std::min(first + most, candidates.size()); ++i) {
        if (!cannot_win(candidates[i].least_seconds)) {
            plans.push_back(&candidates[i].setting.plan);
        }
    }
    times_.sample(plans);
    if (!best_) {
        return;
    }
    std::erase_if(plans, [&](const schedule::Plan* plan) { return cannot_win(times_.least_seconds_of(*plan)); });
    times_.simulate(plans);
    report();
}

std::vector<Prediction> Search::predictions_of(const std::vector<const schedule::Plan*>& plans) {
    std::vector<const schedule::Plan*> long_ones;
    std::copy_if(plans.begin(), plans.end(), std::back_inserter(long_ones),
                 [](const schedule::Plan* plan) { return !is_quick_in_own_pages(*plan); });
    times_.simulate(long_ones);
    std::vector<Prediction> found(plans.size());
    for_each_in_parallel(plans.size(), [&](std::size_t i) {
        if (is_quick_in_own_pages(*plans[i])) {
            found[i] = predict_step(*plans[i], profile_, times_.lists());
        }
    });
    for (std::size_t i = 0; i < plans.size(); ++i) {
        if (!is_quick_in_own_pages(*plans[i])) {
            found[i] = times_.prediction_of(*plans[i]);
        }
    }
    return found;
}

// In the order of their bounds.
std::vector<Search::Candidate> Search::candidates_of(CutSettings& cut) {
    std::vector<Candidate> candidates;
    for (const RunConfiguration& one : cut.all()) {
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
    CutSettings cut(model_, asked_, freedom_, best_->run);
    std::size_t tried = 0;
    for (Candidate& one : candidates_of(cut)) {
        const RunConfiguration& run = one.setting.run;
        if (tried < kScouted && (run.keep != best_->run.keep || holds(run) != holds(best_->run))) {
            ++tried;
            take_if_faster(one.setting, next);
        }
    }
    return next;
}

std::optional<Setting> Search::next_cut() {
    std::optional<Setting> next;
    for (Setting& one : tried_) {
        const RunConfiguration &run = one.run, &best = best_->run;
        if (run.chunk_tokens != best.chunk_tokens || run.window_tokens != best.window_tokens) {
            take_if_faster(one, next);
        }
    }
    return next;
}

void Search::take_if_faster(Setting& one, std::optional<Setting>& fastest) {
    if (fastest && times_.least_seconds_of(one.plan) >= fastest->seconds) {
        return;
    }
    one.seconds = times_.seconds_of(one.plan);
    if (!fastest || one.seconds < fastest->seconds) {
        fastest = one;
    }
}

std::optional<Search::Candidate> Search::candidate(CutSettings& cut, const RunConfiguration& run) {
    Candidate found{{run, cut.plan_of(run), 0.0}, 0.0};
    if (!shortfalls(found.setting.plan).empty()) {
        return std::nullopt;
    }
    found.least_seconds =
        bound_.sequence_seconds(found.setting.plan.run) + times_.optimizer_seconds(found.setting.plan);
    return found;
}

bool Search::cannot_win(double least_seconds) const {
    return best_ && least_seconds >= best_->seconds * (1 - kEqualTimes);
}

void Search::report() const {
    if (progress_) {
        progress_(cuts_, times_.simulated());
    }
}

// True: it is the best now.
bool Search::try_candidate(Candidate candidate) {
    if (cannot_win(candidate.least_seconds)) {
        return false;
    }
    report();
    tried_.push_back(candidate.setting);
    candidate.least_seconds = std::max(candidate.least_seconds, times_.least_seconds_of(candidate.setting.plan));
    if (!best_ && !times_.knows(candidate.setting.plan)) {
        waiting_.push_back(std::move(candidate));
        return false;
    }
    const bool is_best = walk_if_it_can_win(std::move(candidate));
    settle();
    return is_best;
}

bool Search::walk_if_it_can_win(Candidate candidate) {
    if (cannot_win(candidate.least_seconds)) {
        return false;
    }
    candidate.setting.seconds = times_.seconds_of(candidate.setting.plan);
    if (cannot_win(candidate.setting.seconds)) {
        return false;
    }
    best_ = std::move(candidate.setting);
    return true;
}

// From the best setting on: kept pages one way or the other by ever smaller steps, held chunks by one.
void Search::polish() {
    CutSettings cut(model_, asked_, freedom_, best_->run);
    const std::int64_t unit = keeps_input(best_->run.keep) ? model_.layers : 1;
    if (freedom_.kept_pages && best_->run.keep != Keep::kNone) {
        const std::int64_t pages = best_->plan.kept_pages();
        const std::int64_t least = std::max(unit, pages / kLeastKeptPart);
        for (std::int64_t step = std::max(least, pages / (2 * CutSettings::kKeptParts)) / unit * unit; step >= least;
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

bool Search::moved(CutSettings& cut, Amount RunConfiguration::*amount, std::int64_t by) {
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
    const double most = best_->seconds * (1 + kEqualTimes);
    if (times_.least_seconds_of(freed.plan) > most) {
        return;
    }
    freed.seconds = times_.seconds_of(freed.plan);
    if (freed.seconds <= most) {
        best_ = std::move(freed);
    }
}

}  // namespace oomb::simulator
