#include "simulator/prediction.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "runtime/core/model_flops.hpp"
#include "runtime/issue/issuer.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/key_parts.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "runtime/schedule/placement.hpp"
#include "simulator/clock.hpp"
#include "simulator/layer_sample.hpp"
#include "simulator/shortcut.hpp"

namespace oomb::simulator {

using schedule::Engine;
using schedule::Kind;

Use& Use::operator+=(const Use& other) {
    operations += other.operations;
    seconds += other.seconds;
    bytes += other.bytes;
    return *this;
}

Use Prediction::of(Engine engine) const {
    Use sum;
    for (const auto& phase : uses) {
        for (const Use& use : phase[static_cast<std::size_t>(engine)]) {
            sum += use;
        }
    }
    return sum;
}

Use Prediction::of(Kind kind) const {
    Use sum;
    for (const auto& phase : uses) {
        for (const auto& engine : phase) {
            sum += engine[static_cast<std::size_t>(kind)];
        }
    }
    return sum;
}

std::optional<double> Prediction::hidden_copy_share() const {
    const double busy = of(Engine::kHostToDevice).seconds + of(Engine::kDeviceToHost).seconds;
    return busy > 0 ? std::optional(std::clamp(1 - exposed_copy_seconds / busy, 0.0, 1.0)) : std::nullopt;
}

std::optional<double> Prediction::flop_utilisation() const {
    return peak_flops && lists.empty() ? std::optional(model_flops / seconds / *peak_flops) : std::nullopt;
}

namespace {

constexpr double kMostPageUses = 5e8;             // in the largest pages: a second, a minute where nothing repeats
constexpr double kMostListedPageUses = 2e8;       // of the layers that are walked through: some ten seconds
constexpr double kMostQuickListedPageUses = 1e7;  // some tenths
constexpr double kMostOwnPageUses = 5e6;          // in the plan's own: some hundredth of a second
constexpr double kMostOwnListedPageUses = 1e6;    // in all layers: the same
constexpr double kMostHostShare = 0.02;           // of a step that its sample is taken for

// The executor looks at loss and gradients between their norm and the first update. A store of states runs beside a
// fetch that comes after it in the schedule: the one that waits for the slot of the store before it.
class OptimizerPhase : public schedule::OperationSink {
  public:
    OptimizerPhase(const schedule::StepShape& step, issue::Issuer& issuer, Clock& clock)
        : shards_(schedule::optimizer_shards(step)), issuer_(issuer), clock_(clock) {}
    void take(const schedule::Operation& operation) override {
        clock_.expect_fetch(operation.id.kind == Kind::kStoreState && shards_.store_meets_fetch(operation.id.part));
        issuer_.take(operation);
        if (operation.id.kind == Kind::kGradientNorm) {
            clock_.wait_idle();
        }
    }

  private:
    const schedule::OptimizerShards shards_;
    issue::Issuer& issuer_;
    Clock& clock_;
};

// From the schedule to the clock, without a new operation in memory each time.
class Walk : public schedule::OperationSink {
  public:
    Walk(issue::Issuer& issuer, Clock& clock) : issuer_(issuer), clock_(clock) {}
    void take(const schedule::Operation& operation) override {
        if (issuer_.issue(operation, issued_)) {
            clock_.run(issued_);
        }
    }

  private:
    issue::Issuer& issuer_;
    Clock& clock_;
    issue::IssuedOperation issued_;
};

// Asks for lists when the issuer needs them, and lets the clock wait for them.
class AwaitedLists : public issue::PageListSource {
  public:
    AwaitedLists(std::unique_ptr<issue::PageListSource> source, Clock& clock)
        : source_(std::move(source)), clock_(clock) {}
    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket stored) override {
        clock_.wait_for_lists(stored);
        return source_->page_lists(layer, first, count, stored);
    }

  private:
    std::unique_ptr<issue::PageListSource> source_;
    Clock& clock_;
};

// Pages that requests name, in a step: history and own pages of every chunk in fill, forward and backward, each for
// the copy and for its use, with the gradients'. What simulating takes grows with it.
double page_uses(const schedule::Plan& plan, std::int64_t page_tokens) {
    constexpr double kUsesOfAPage = 8;
    const schedule::StepShape step(plan.model, plan.run);
    if (step.selects()) {
        const std::int64_t named = step.pages_per_group() * plan.run.top_k;
        std::int64_t pages = 0;
        for (std::int64_t chunk = 0; chunk < step.chunks(); ++chunk) {
            const std::int64_t history = step.first_page(chunk);
            pages += step.pages_of(chunk) +
                     (step.has_lists(chunk) ? step.groups(chunk) * std::min(named, history) : history);
        }
        return kUsesOfAPage * static_cast<double>(pages * plan.model.layers);
    }
    const std::int64_t all = schedule::divide_up(step.tokens(), page_tokens);
    double pages = 0;
    for (const schedule::LayersAlike& layers : schedule::layers_alike(step)) {
        const std::int64_t reach = step.sliding_window(layers.first) + step.run().sinks;
        // Beside its own pages a chunk uses half of the others, on average, or those within reach.
        const double history = static_cast<double>(all) * static_cast<double>(step.chunks() - 1) / 2;
        const double within = static_cast<double>(step.chunks() * schedule::divide_up(reach, page_tokens));
        const bool slides = step.sliding_window(layers.first) > 0;
        pages += static_cast<double>(layers.count) *
                 (static_cast<double>(all) + (slides ? std::min(history, within) : history));
    }
    return kUsesOfAPage * pages;
}

// All layers look alike but for their lists, and leaving some of them out saves any.
bool can_sample(const schedule::StepShape& step) {
    return step.selects() && step.model().layers > LayerSample::kLayers && schedule::layers_alike(step).size() == 1;
}

// Of the layers that are walked through, where their lists are modelled.
double walked_page_uses(const schedule::Plan& plan, std::int64_t page_tokens) {
    const bool samples = can_sample(schedule::StepShape(plan.model, plan.run));
    const double share =
        samples ? static_cast<double>(LayerSample::kLayers) / static_cast<double>(plan.model.layers) : 1.0;
    return share * page_uses(plan, page_tokens);
}

// The largest that divides chunks, windows and sinks, and in which the parts that a sliding window makes of a history
// end where they do: as far back as the first query of a chunk sees, and the last one.
std::int64_t largest_page(const schedule::Plan& plan) {
    const RunConfiguration& run = plan.run;
    std::int64_t page = std::gcd(std::gcd(run.chunk_tokens, run.window_tokens), run.sinks);
    const schedule::StepShape step(plan.model, run);
    for (const schedule::LayersAlike& layers : schedule::layers_alike(step)) {
        const std::int64_t window = step.sliding_window(layers.first);
        const std::int64_t first = schedule::divide_up(std::max<std::int64_t>(0, window - 1), run.page_tokens);
        page = std::gcd(page, std::gcd(first, window / run.page_tokens) * run.page_tokens);
    }
    return page;
}

}  // namespace

std::optional<std::string> why_unpredictable(const schedule::Plan& plan, const HardwareProfile& profile) {
    if (plan.run.device != DeviceKind::kCuda) {
        return "times are those of a GPU";
    }
    if (const auto missing = missing_rate(profile, plan.run.compute, plan.run.deterministic)) {
        return fmt::format("hardware profile \"{}\" has no {}", profile.name, *missing);
    }
    const double uses = walked_page_uses(plan, largest_page(plan));
    const bool selects = schedule::StepShape(plan.model, plan.run).selects();
    const double most = selects ? kMostListedPageUses : kMostPageUses;
    if (uses > most) {
        return fmt::format("a step uses pages {:.1e} times, simulated are up to {:.1e}", uses, most);
    }
    return std::nullopt;
}

bool is_slow_to_predict(const schedule::Plan& plan) {
    return schedule::StepShape(plan.model, plan.run).selects() &&
           walked_page_uses(plan, largest_page(plan)) > kMostQuickListedPageUses;
}

namespace {

// How many sequences, whether what only repeats in them is left out, and where lists of pages come from.
struct Walked {
    std::int64_t sequences = 1;
    bool shortened = false;
    ListSource lists = {};
};

void count_tokens(const schedule::Plan& plan, std::int64_t sequences, Prediction& prediction) {
    const std::int64_t counted = std::max<std::int64_t>(1, sequences), tokens = plan.run.context_tokens;
    const double share = plan.run.forward_only ? 1.0 / 3 : 1.0;  // of a step, whose backward counts twice its forward
    prediction.tokens = counted * tokens;
    prediction.model_flops =
        share * static_cast<double>(counted) * model_flops(plan.model, tokens, plan.run.local_window, plan.run.sinks);
}

Prediction simulate(const schedule::Plan& plan, Durations& durations, const Walked& walked, StepObserver* observer,
                    std::int64_t* left_out = nullptr) {
    const schedule::StepShape step(plan.model, plan.run);
    const bool selects = walked.sequences > 0 && step.selects();
    Clock clock(plan, durations, observer);
    AwaitedLists awaited(selects ? walked.lists.open(plan) : nullptr, clock);
    issue::Issuer issuer(plan, clock, &awaited);
    if (observer != nullptr) {
        observer->begins(issuer);
    }
    for (std::int64_t number = 0; number < walked.sequences; ++number) {
        if (number > 0) {
            clock.wait_idle();  // the sequence before still reads its tokens
        }
        if (walked.shortened && !selects) {
            Shortcut shortcut(plan, issuer, clock);
            schedule::SequenceGenerator(step, number, walked.sequences, shortcut).generate();
            if (left_out != nullptr) {
                *left_out = shortcut.operations_left_out();
            }
            clock.log_to(nullptr);
        } else {
            Walk walk(issuer, clock);
            schedule::SequenceGenerator(step, number, walked.sequences, walk).generate();
        }
    }
    OptimizerPhase optimizer(step, issuer, clock);
    schedule::generate_optimizer(step, optimizer);
    Prediction prediction = clock.so_far();
    prediction.lists = selects ? walked.lists.text(plan.run.attention) : "";
    count_tokens(plan, walked.sequences, prediction);
    return prediction;
}

void name_hardware(const schedule::Plan& plan, const HardwareProfile& profile, Prediction& prediction) {
    prediction.hardware = profile.name;
    if (const auto peak = profile.peak_flops.find(plan.run.compute); peak != profile.peak_flops.end()) {
        prediction.peak_flops = peak->second.per_second;
    }
}

// Room on the host for every gradient page that lists could name. Lists of a model say how long a step takes, not
// whether --gradient-pages is enough: the run's own may name fewer pages.
schedule::Plan with_room_for_modelled_lists(const schedule::Plan& plan, const ListSource& lists) {
    schedule::Plan roomy = plan;
    if (lists.recorded == nullptr && roomy.run.gradient_pages.mode != Amount::Mode::kAll) {
        roomy.run.gradient_pages = {Amount::Mode::kAll, 0};
        const schedule::StepShape step(roomy.model, roomy.run);
        for (schedule::PoolPlan& pool : roomy.pools) {
            if (pool.tier == Tier::kHost && pool.page_class == PageClass::kKvGradient) {
                pool.frames = step.pages() * step.model().layers;
            }
        }
    }
    return roomy;
}

Prediction simulate(const schedule::Plan& asked, const HardwareProfile& profile, const Walked& walked,
                    StepObserver* observer = nullptr, std::int64_t* left_out = nullptr) {
    const schedule::Plan plan = with_room_for_modelled_lists(asked, walked.lists);
    ProfileDurations durations(plan.run, profile);
    Prediction prediction = simulate(plan, durations, walked, observer, left_out);
    name_hardware(plan, profile, prediction);
    return prediction;
}

// Compute waits for the host, which has no layers to come to rest in: how far it is ahead depends on all of them.
bool host_holds_up(const Prediction& prediction) {
    const double lanes = std::accumulate(prediction.phase_seconds.begin(), prediction.phase_seconds.end(), 0.0) -
                         prediction.of(Engine::kCompute).seconds - prediction.exposed_copy_seconds -
                         prediction.list_wait_seconds;
    return lanes > kMostHostShare * prediction.seconds;
}

Prediction simulate_sample(const schedule::Plan& asked, const HardwareProfile& profile, const ListSource& lists) {
    const schedule::Plan plan = with_room_for_modelled_lists(asked, lists);
    const schedule::Plan fewer = schedule::of_fewer_layers(plan, LayerSample::kLayers);
    const schedule::StepShape step(plan.model, plan.run), few(fewer.model, fewer.run);
    Clock clock(fewer, profile);
    AwaitedLists awaited(lists.open(fewer), clock);
    issue::Issuer issuer(fewer, clock, &awaited);
    Walk walk(issuer, clock);
    LayerSample sample(step, walk, issuer, clock);
    schedule::SequenceGenerator(few, 0, 1, sample).generate();
    OptimizerPhase optimizer(step, issuer, clock);
    schedule::generate_optimizer(step, optimizer);
    Prediction prediction = sample.of_all();
    prediction.lists = lists.text(plan.run.attention);
    count_tokens(plan, 1, prediction);
    name_hardware(plan, profile, prediction);
    return prediction;
}

}  // namespace

Prediction simulate_step(const schedule::Plan& plan, const HardwareProfile& profile, StepObserver* observer,
                         const ListSource& lists) {
    return simulate(plan, profile, {.sequences = 1, .lists = lists}, observer);
}

Prediction simulate_step(const schedule::Plan& plan, Durations& durations, std::int64_t sequences,
                         StepObserver* observer) {
    return simulate(plan, durations, {.sequences = sequences}, observer);
}

Prediction simulate_optimizer(const schedule::Plan& plan, const HardwareProfile& profile) {
    return simulate(schedule::in_larger_pages(plan, largest_page(plan)), profile, {.sequences = 0});
}

Prediction simulate_shortened(const schedule::Plan& plan, const HardwareProfile& profile, std::int64_t* left_out) {
    return simulate(plan, profile, {.sequences = 1, .shortened = true}, nullptr, left_out);
}

Prediction simulate_in_larger_pages(const schedule::Plan& plan, const HardwareProfile& profile,
                                    const ListSource& lists) {
    const schedule::StepShape step(plan.model, plan.run);
    if (!step.selects()) {
        return simulate_shortened(schedule::in_larger_pages(plan, largest_page(plan)), profile);
    }
    if (lists.recorded == nullptr && can_sample(step)) {
        if (Prediction sampled = simulate_sample(plan, profile, lists); !host_holds_up(sampled)) {
            return sampled;
        }
    }
    return simulate_step(plan, profile, nullptr, lists);
}

Prediction predict_step(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists) {
    const bool selects = schedule::StepShape(plan.model, plan.run).selects();
    const bool is_short =
        page_uses(plan, plan.run.page_tokens) <= (selects ? kMostOwnListedPageUses : kMostOwnPageUses);
    if (!is_short) {
        return simulate_in_larger_pages(plan, profile, lists);
    }
    return selects ? simulate_step(plan, profile, nullptr, lists) : simulate_shortened(plan, profile);
}

}  // namespace oomb::simulator
