#include "runtime/schedule/plan.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/layout.hpp"
#include "runtime/schedule/region_sizes.hpp"

namespace oomb::schedule {
namespace {

constexpr std::int64_t kMostChunks = std::int64_t{1} << 16;  // room for the chunk in an operation's id
constexpr std::int64_t kMostLayers = std::int64_t{1} << 9;
constexpr std::int64_t kMostParts = std::int64_t{1} << 19;

void check_coordinates(const StepShape& step) {
    if (step.chunks() > kMostChunks) {
        fail<UsageError>(
            "--chunk: {} tokens in chunks of {} are {} chunks, allowed are {}; take --chunk {} or more", step.tokens(),
            step.run().chunk_tokens, step.chunks(), kMostChunks,
            divide_up(divide_up(step.tokens(), kMostChunks), step.run().page_tokens) * step.run().page_tokens);
    }
    const std::int64_t windows = step.history_windows(step.chunks() - 1);
    if (2 * (windows + 1) > kMostParts) {  // K/V and their gradients travel as parts of their own
        fail<UsageError>("--window: {} windows of {} tokens, allowed are {}; take a larger --window", windows,
                         step.run().window_tokens, kMostParts / 2 - 1);
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

// Frames of each pool when `resident` pages have their home in HBM. Each number is reached, not only bounded:
// a page keeps its HBM frame until it dies or the frame is needed, so a pool fills up before anything is evicted.
struct FrameCounts {
    std::int64_t hbm_kv = 0, hbm_gradient = 0, hbm_activation = 0;
    std::int64_t host_kv = 0, host_gradient = 0, host_activation = 0;
};

FrameCounts count_frames(const StepShape& step, std::int64_t resident) {
    const std::int64_t layers = step.model().layers;
    const std::int64_t last = step.chunks() - 1;
    const std::int64_t history = layers * step.first_page(last);
    const std::int64_t window = std::min(step.pages_per_window(), step.first_page(last));
    // Two windows and two own chunks: one in use, one on its way.
    const std::int64_t ring = 2 * window + 2 * std::min(step.pages_per_chunk(), step.pages());
    FrameCounts counts;
    counts.hbm_kv = std::min(step.total_pages(), resident + ring);
    counts.hbm_gradient = std::min(history + step.pages_of(last), resident + ring);
    if (step.run().offload == Offload::kHost) {
        counts.host_kv = step.total_pages() - resident;
        counts.host_gradient = history - std::min(history, resident);
    }
    (step.run().offload == Offload::kHost ? counts.host_activation : counts.hbm_activation) = step.kept_pages();
    return counts;
}

std::vector<PoolPlan> make_pools(const StepShape& step, const FrameCounts& counts) {
    const auto planes = [&](PageClass page_class) -> std::vector<std::int64_t> {
        if (page_class != PageClass::kActivation) {
            return {step.page_plane_bytes(page_class), step.page_plane_bytes(page_class)};
        }
        const std::int64_t rows = step.longest_chunk();
        std::vector<std::int64_t> kept;
        if (keeps_input(step.run().keep)) {
            kept.push_back(aligned(step.kept_input_bytes(rows)));
        }
        if (keeps_output(step.run().keep)) {
            kept.push_back(aligned(step.kept_output_bytes(rows)));
            kept.push_back(aligned(step.kept_lse_bytes(rows)));
        }
        return kept;
    };
    const std::int64_t frames[kTiers][kPageClasses] = {{counts.hbm_kv, counts.hbm_gradient, counts.hbm_activation},
                                                       {counts.host_kv, counts.host_gradient, counts.host_activation}};
    std::vector<PoolPlan> pools;
    for (int tier = 0; tier < kTiers; ++tier) {
        for (int page_class = 0; page_class < kPageClasses; ++page_class) {
            if (frames[tier][page_class] > 0) {
                const auto which = static_cast<PageClass>(page_class);
                pools.push_back({static_cast<Tier>(tier), which, frames[tier][page_class], planes(which), 0});
            }
        }
    }
    return pools;
}

// Regions and pools with their offsets for a given number of resident pages.
Plan plan_with(const StepShape& step, const RegionTable& regions, const std::int64_t region_bytes[kTiers],
               std::int64_t resident) {
    Plan plan{step.model(), step.run(), regions, make_pools(step, count_frames(step, resident)), resident, {0, 0}, 0};
    std::int64_t end[kTiers] = {region_bytes[0], region_bytes[1]};
    plan.page_table_bytes = (2 * step.total_pages() + step.kept_pages()) * kPageRecord_bytes;
    for (PoolPlan& pool : plan.pools) {
        std::int64_t& tier_end = end[static_cast<int>(pool.tier)];
        pool.offset_bytes = tier_end;
        tier_end += pool.total_bytes();
        plan.page_table_bytes +=
            pool.frames * (kFrameStateRecord_bytes[static_cast<int>(pool.tier)] + kFrameAccessRecord_bytes);
    }
    plan.arena_bytes[0] = end[0];
    plan.arena_bytes[1] = end[1];
    return plan;
}

// Most resident pages whose plan fits the HBM budget: the bytes grow with the number, so bisection finds it.
std::int64_t most_resident(const StepShape& step, const RegionTable& regions, const std::int64_t region_bytes[kTiers]) {
    std::int64_t fits = 0, too_many = step.total_pages() + 1;
    while (too_many - fits > 1) {
        const std::int64_t middle = fits + (too_many - fits) / 2;
        const std::int64_t needed = plan_with(step, regions, region_bytes, middle).peak_bytes(Tier::kHbm);
        (needed <= step.run().gpu_memory_bytes ? fits : too_many) = middle;
    }
    return fits;
}

}  // namespace

std::int64_t PoolPlan::plane_offset_bytes(std::size_t plane) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < plane; ++i) {
        offset += aligned(frames * plane_bytes[i]);
    }
    return offset;
}

const PoolPlan* Plan::pool(Tier tier, PageClass page_class) const {
    for (const PoolPlan& candidate : pools) {
        if (candidate.tier == tier && candidate.page_class == page_class) {
            return &candidate;
        }
    }
    return nullptr;
}

Plan make_plan(const ModelShape& model, const RunConfiguration& run) {
    validate(run);
    const StepShape step(model, run);
    check_coordinates(step);
    RegionTable regions = region_sizes(step);
    const Interference interference = interference_of(step);
    const std::int64_t region_bytes[kTiers] = {assign_offsets(regions, Tier::kHbm, interference),
                                               assign_offsets(regions, Tier::kHost, interference)};
    std::int64_t resident = step.total_pages();
    if (run.offload == Offload::kHost) {
        if (run.hbm_pages.mode == HbmPages::Mode::kRing) {
            resident = 0;
        } else if (run.hbm_pages.mode == HbmPages::Mode::kCount) {
            resident = std::min(resident, run.hbm_pages.count);
        } else if (run.gpu_memory_bytes > 0) {
            resident = most_resident(step, regions, region_bytes);
        }
    }
    return plan_with(step, regions, region_bytes, resident);
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
