#include "simulator/step/step_size.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/core/error.hpp"
#include "runtime/schedule/key_parts.hpp"
#include "simulator/costs/costs.hpp"
#include "simulator/step/layer_sample.hpp"

namespace oomb::simulator {
namespace {

constexpr double kMostPageUses = 5e8;             // in the largest pages: a second, a minute where nothing repeats
constexpr double kMostListedPageUses = 2e8;       // of the layers that are walked through: some ten seconds
constexpr double kMostQuickListedPageUses = 1e7;  // some tenths
constexpr double kMostOwnPageUses = 5e6;          // in the plan's own: some hundredth of a second
constexpr double kMostOwnListedPageUses = 1e6;    // in all layers: the same

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

bool selects(const schedule::Plan& plan) {
    return schedule::StepShape(plan.model, plan.run).selects();
}

}  // namespace

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

bool can_sample(const schedule::StepShape& step) {
    return step.selects() && step.model().layers > LayerSample::kLayers && schedule::layers_alike(step).size() == 1;
}

double walked_page_uses(const schedule::Plan& plan, Layers layers) {
    const bool samples = layers == Layers::kSample && can_sample(schedule::StepShape(plan.model, plan.run));
    const double share =
        samples ? static_cast<double>(LayerSample::kLayers) / static_cast<double>(plan.model.layers) : 1.0;
    return share * page_uses(plan, largest_page(plan));
}

bool is_quick_in_own_pages(const schedule::Plan& plan) {
    return page_uses(plan, plan.run.page_tokens) <= (selects(plan) ? kMostOwnListedPageUses : kMostOwnPageUses);
}

bool is_slow_to_predict(const schedule::Plan& plan) {
    return selects(plan) && (walked_page_uses(plan, Layers::kSample) > kMostQuickListedPageUses ||
                             why_too_long(plan, Layers::kAll).has_value());
}

std::optional<std::string> why_too_long(const schedule::Plan& plan, Layers layers) {
    const double uses = walked_page_uses(plan, layers), most = selects(plan) ? kMostListedPageUses : kMostPageUses;
    if (uses > most) {
        return fmt::format("a step uses pages {:.1e} times, simulated are up to {:.1e}", uses, most);
    }
    return std::nullopt;
}

std::optional<std::string> why_unpredictable(const schedule::Plan& plan, const HardwareProfile& profile,
                                             Layers layers) {
    if (plan.run.device != DeviceKind::kCuda) {
        return "times are those of a GPU";
    }
    if (const auto missing = missing_rate(profile, plan.run.compute, plan.run.deterministic)) {
        return fmt::format("hardware profile \"{}\" has no {}", profile.name, *missing);
    }
    return why_too_long(plan, layers);
}

}  // namespace oomb::simulator
