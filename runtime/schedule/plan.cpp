#include "runtime/schedule/plan.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/choice.hpp"
#include "runtime/schedule/key_parts.hpp"

namespace oomb::schedule {
namespace {

constexpr std::int64_t kMostChunks = std::int64_t{1} << 16;  // room for the chunk in an operation's id
constexpr std::int64_t kMostLayers = std::int64_t{1} << 9;
constexpr std::int64_t kMostParts = std::int64_t{1} << 19;
// K/V and their gradients travel as parts of their own, and so do those of the own chunk.
constexpr std::int64_t kMostHistoryParts = kMostParts / 2 - 1;

std::int64_t groups_of_full_chunk(const StepShape& step) {
    return divide_up(step.pages_per_chunk(), step.pages_per_group());
}

// Of the history in any chunk and layer: the number grows with the history, but for the windows' last parts.
std::int64_t most_parts(const StepShape& step) {
    std::int64_t parts = 0;
    for (const auto& [layer, count] : layers_alike(step)) {
        const std::int64_t slack = step.sliding_window(layer) == 0 ? 0 : 3;
        parts = std::max(parts, KeyParts(step, step.chunks() - 1, layer).history() + slack);
    }
    return parts;
}

void check_coordinates(const StepShape& step) {
    if (step.chunks() > kMostChunks) {
        fail<UsageError>(
            "--chunk: {} tokens in chunks of {} are {} chunks, allowed are {}; take --chunk {} or more", step.tokens(),
            step.run().chunk_tokens, step.chunks(), kMostChunks,
            divide_up(divide_up(step.tokens(), kMostChunks), step.run().page_tokens) * step.run().page_tokens);
    }
    check_attention_kernels(step.run(), step.model().head_dim);
    const std::int64_t windows = most_parts(step);
    if (windows > kMostHistoryParts) {
        fail<UsageError>("--window: {} windows of {} tokens, allowed are {}; take a larger --window", windows,
                         step.run().window_tokens, kMostHistoryParts);
    }
    const bool slides = !step.model().sliding_windows.empty();
    if (has_page_lists(step.run().attention) && slides) {
        fail<UsageError>(
            "--attention {}: layers of this model attend to a sliding window (config.json), which pages are not "
            "selected from; take --attention dense or local",
            name_of(step.run().attention));
    }
    if (step.measures_recall() && slides) {
        fail<UsageError>(
            "--recall: layers of this model attend to a sliding window (config.json), and measured is which share of "
            "attention over the whole history pages cover; leave --recall out");
    }
    if (step.run().sinks > 0 && slides) {
        fail<UsageError>(
            "--sinks {}: layers of this model attend to a sliding window of their own (config.json), which has no "
            "sinks; leave --sinks out",
            step.run().sinks);
    }
    const std::int64_t groups = step.selects() ? groups_of_full_chunk(step) : 0;
    if (groups > kMostHistoryParts) {
        fail<UsageError>(
            "--page-tokens: a chunk's pages of queries are served in {} groups, allowed are {}; take larger "
            "pages, a larger --window or a smaller --chunk",
            groups, kMostHistoryParts);
    }
    const std::int64_t tiles = divide_up(step.longest_chunk(), step.run().logit_tile_tokens);
    if (tiles > kMostParts) {
        fail<UsageError>("--logit-tile: {} tiles of {} tokens in a chunk, allowed are {}; take a larger --logit-tile",
                         tiles, step.run().logit_tile_tokens, kMostParts);
    }
    if (step.model().layers > kMostLayers) {
        fail<UnsupportedError>("model: {} layers, at most {} are supported", step.model().layers, kMostLayers);
    }
}

}  // namespace

std::int64_t PoolPlan::plane_offset_bytes(std::size_t plane) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < plane; ++i) {
        offset += aligned(frames * plane_bytes[i]);
    }
    return offset;
}

std::int64_t Plan::driver_bytes() const {
    if (run.device != DeviceKind::kCuda) {
        return 0;
    }
    return (run.compute == DType::kBF16 ? kDriver_bytes : kDriverFp32_bytes) + kDriverUnit_bytes;
}

const PoolPlan* Plan::pool(Tier tier, PageClass page_class) const {
    for (const PoolPlan& candidate : pools) {
        if (candidate.tier == tier && candidate.page_class == page_class) {
            return &candidate;
        }
    }
    return nullptr;
}

ContextLimit context_limit(const RunConfiguration& run) {
    validate(run);
    const StepShape step({}, run);
    ContextLimit limit{kMostTokens, "--context"};
    const auto lower = [&](std::int64_t tokens, std::string_view flag) {
        if (tokens < limit.tokens) {
            limit = {tokens, flag};
        }
    };
    lower(kMostChunks * run.chunk_tokens, "--chunk");
    // Windows are those before the last chunk, or within reach of a sliding window.
    const std::int64_t reach = run.local_window + run.sinks + 2 * run.chunk_tokens;
    const bool within_reach =
        run.attention == AttentionMode::kLocal && divide_up(reach, run.window_tokens) + 6 <= kMostHistoryParts;
    if (!within_reach) {
        lower((1 + kMostHistoryParts * run.window_tokens / run.chunk_tokens) * run.chunk_tokens, "--window");
    }
    if (has_page_lists(run.attention) && groups_of_full_chunk(step) > kMostHistoryParts) {
        lower(step.first_listed_chunk() * run.chunk_tokens, "--page-tokens");
    }
    if (divide_up(run.chunk_tokens, run.logit_tile_tokens) > kMostParts) {
        lower(kMostParts * run.logit_tile_tokens, "--logit-tile");
    }
    return limit;
}

Plan make_plan(const ModelShape& model, const RunConfiguration& run) {
    validate(run);
    const StepShape step(model, run);
    check_coordinates(step);
    return choose_plan(model, run);
}

std::vector<Shortfall> shortfalls(const Plan& plan) {
    std::vector<Shortfall> result;
    const std::int64_t budgets[kTiers] = {plan.run.gpu_memory_bytes, plan.run.host_memory_bytes};
    for (int tier = 0; tier < kTiers; ++tier) {
        const std::int64_t needed = plan.peak_bytes(static_cast<Tier>(tier));
        if (budgets[tier] > 0 && needed > budgets[tier]) {
            result.push_back({static_cast<Tier>(tier), needed, budgets[tier]});
        }
    }
    return result;
}

}  // namespace oomb::schedule
