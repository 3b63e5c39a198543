#include "simulator/step/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/model_flops.hpp"
#include "runtime/issue/issuer.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "runtime/schedule/placement.hpp"
#include "simulator/step/clock.hpp"
#include "simulator/step/layer_sample.hpp"
#include "simulator/step/shortcut.hpp"
#include "simulator/step/step_size.hpp"

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

void Prediction::add(const Prediction& until, const Prediction& since, double times) {
    const auto whole = [&](std::int64_t count) { return std::llround(times * static_cast<double>(count)); };
    exposed_copy_seconds += times * (until.exposed_copy_seconds - since.exposed_copy_seconds);
    list_wait_seconds += times * (until.list_wait_seconds - since.list_wait_seconds);
    for (std::size_t phase = 0; phase < schedule::kPhases; ++phase) {
        phase_seconds[phase] += times * (until.phase_seconds[phase] - since.phase_seconds[phase]);
        for (std::size_t engine = 0; engine < schedule::kEngines; ++engine) {
            for (std::size_t kind = 0; kind < schedule::kKinds; ++kind) {
                const Use &after = until.uses[phase][engine][kind], &before = since.uses[phase][engine][kind];
                if (after.operations == before.operations) {
                    continue;  // as most
                }
                uses[phase][engine][kind] +=
                    {whole(after.operations - before.operations), times * (after.seconds - before.seconds),
                     whole(after.bytes - before.bytes)};
            }
        }
    }
}

std::optional<double> Prediction::hidden_copy_share() const {
    const double busy = of(Engine::kHostToDevice).seconds + of(Engine::kDeviceToHost).seconds;
    return busy > 0 ? std::optional(std::clamp(1 - exposed_copy_seconds / busy, 0.0, 1.0)) : std::nullopt;
}

double Prediction::host_wait_seconds() const {
    const double lanes = std::accumulate(phase_seconds.begin(), phase_seconds.end(), 0.0);
    return lanes - of(Engine::kCompute).seconds - exposed_copy_seconds - list_wait_seconds;
}

std::optional<double> Prediction::flop_utilisation() const {
    return peak_flops && lists.empty() ? std::optional(model_flops / seconds / *peak_flops) : std::nullopt;
}

namespace {

// How far a step is simulated: until the executor has looked at the norm of the gradients, or to its end.
enum class Until : std::uint8_t { kNorm, kEnd };

// The executor looks at loss and gradients between their norm and the first update, so all engines come to rest there.
// A store of states runs beside a fetch that comes after it in the schedule: the one that waits for the slot of the
// store before it.
class OptimizerPhase : public schedule::OperationSink {
  public:
    OptimizerPhase(const schedule::StepShape& step, issue::Issuer& issuer, Clock& clock, Until until)
        : shards_(schedule::optimizer_shards(step)), issuer_(issuer), clock_(clock), until_(until) {}
    void take(const schedule::Operation& operation) override {
        if (operation.id.kind != Kind::kGradientNorm && until_ == Until::kNorm) {
            return;
        }
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
    const Until until_;
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
    std::shared_ptr<const issue::PageLists> checked(const issue::AskedLists& asked) override {
        clock_.wait_for_lists(asked.stored);
        return source_->checked(asked);
    }

  private:
    std::unique_ptr<issue::PageListSource> source_;
    Clock& clock_;
};

// How many sequences, whether what only repeats in them is left out, where lists of pages come from, and how far.
struct Walked {
    std::int64_t sequences = 1;
    bool shortened = false;
    ListSource lists = {};
    Until until = Until::kEnd;
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
    OptimizerPhase optimizer(step, issuer, clock, walked.until);
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

// Until the norm of the gradients.
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
    OptimizerPhase optimizer(step, issuer, clock, Until::kNorm);
    schedule::generate_optimizer(step, optimizer);
    Prediction prediction = sample.of_all();
    prediction.sampled = true;
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

OptimizerPrediction simulate_optimizer(const schedule::Plan& plan, const HardwareProfile& profile) {
    const schedule::Plan large = schedule::in_larger_pages(plan, largest_page(plan));
    OptimizerPrediction found{simulate(large, profile, {.sequences = 0, .until = Until::kNorm}), {}};
    const Prediction whole = simulate(large, profile, {.sequences = 0});
    found.update.seconds = whole.seconds - found.norm.seconds;
    found.update.add(whole, found.norm, 1.0);
    return found;
}

Prediction simulate_shortened(const schedule::Plan& plan, const HardwareProfile& profile, std::int64_t* left_out) {
    return simulate(plan, profile, {.sequences = 1, .shortened = true}, nullptr, left_out);
}

std::optional<Prediction> sample_gradients(const schedule::Plan& plan, const HardwareProfile& profile,
                                           const ListSource& lists) {
    const bool samples = lists.recorded == nullptr && can_sample(schedule::StepShape(plan.model, plan.run));
    return samples ? std::optional(simulate_sample(plan, profile, lists)) : std::nullopt;
}

bool host_holds_up(const Prediction& sample) {
    return sample.host_wait_seconds() > LayerSample::kMostHostShare * sample.seconds;
}

Prediction walk_gradients(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists) {
    const schedule::StepShape step(plan.model, plan.run);
    if (!step.selects()) {
        return simulate(schedule::in_larger_pages(plan, largest_page(plan)), profile,
                        {.shortened = true, .until = Until::kNorm});
    }
    if (lists.recorded == nullptr && can_sample(step)) {
        if (const auto reason = why_too_long(plan, Layers::kAll)) {
            fail<UnsupportedError>("compute waits for the host, so all layers count: {}", *reason);
        }
    }
    return simulate(plan, profile, {.lists = lists, .until = Until::kNorm});
}

Prediction simulate_gradients(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists) {
    std::optional<Prediction> sample = sample_gradients(plan, profile, lists);
    return sample && !host_holds_up(*sample) ? *std::move(sample) : walk_gradients(plan, profile, lists);
}

Prediction simulate_in_larger_pages(const schedule::Plan& plan, const HardwareProfile& profile,
                                    const ListSource& lists) {
    Prediction whole = simulate_gradients(plan, profile, lists);
    whole += simulate_optimizer(plan, profile).update;
    return whole;
}

Prediction predict_step(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists) {
    if (!is_quick_in_own_pages(plan)) {
        return simulate_in_larger_pages(plan, profile, lists);
    }
    const bool selects = schedule::StepShape(plan.model, plan.run).selects();
    return selects ? simulate_step(plan, profile, nullptr, lists) : simulate_shortened(plan, profile);
}

Predicted try_to_predict(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists) {
    const Layers layers = lists.recorded == nullptr ? Layers::kSample : Layers::kAll;
    if (const auto reason = why_unpredictable(plan, profile, layers)) {
        return {std::nullopt, *reason};
    }
    try {
        return {predict_step(plan, profile, lists), ""};
    } catch (const UnsupportedError& error) {
        return {std::nullopt, error.what()};
    }
}

}  // namespace oomb::simulator
