#include "runtime/schedule/placement.hpp"

#include "runtime/schedule/frame_counts.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "runtime/schedule/region_sizes.hpp"

namespace oomb::schedule {
namespace {

std::vector<std::int64_t> planes_of(const StepShape& step, PageClass page_class) {
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
}

std::vector<PoolPlan> make_pools(const StepShape& step, const FrameCounts& counts) {
    std::vector<PoolPlan> pools;
    for (int tier = 0; tier < kTiers; ++tier) {
        for (int page_class = 0; page_class < kPageClasses; ++page_class) {
            if (const std::int64_t frames = counts.of[tier][page_class]; frames > 0) {
                const auto which = static_cast<PageClass>(page_class);
                pools.push_back({static_cast<Tier>(tier), which, frames, planes_of(step, which), 0});
            }
        }
    }
    return pools;
}

}  // namespace

Plan Placement::plan_of(const RunConfiguration& run) {
    if (run.kept_pages.mode != Amount::Mode::kAuto) {
        return place(StepShape(model_, run));
    }
    const auto plan_with_kept = [&](Amount kept) {
        RunConfiguration changed = run;
        changed.kept_pages = kept;
        return place(StepShape(model_, changed));
    };
    // All first: with all inputs and outputs kept the slots take less than with all but a few.
    Plan all = plan_with_kept({Amount::Mode::kAll, 0});
    if (shortfalls(all).empty()) {
        return all;
    }
    const std::int64_t count = most(all.kept_pages() - 1, [&](std::int64_t kept) {
        return shortfalls(plan_with_kept({Amount::Mode::kCount, kept})).empty();
    });
    return plan_with_kept({Amount::Mode::kCount, count});
}

Plan Placement::place(const StepShape& step) {
    if (step.run().resident_shards.mode != Amount::Mode::kAuto) {
        return place_pages(step);
    }
    const auto with_shards = [&](std::int64_t resident) {
        RunConfiguration run = step.run();
        run.resident_shards = {Amount::Mode::kCount, resident};
        return StepShape(model_, run);
    };
    const Plan none = place_pages(with_shards(0));
    const bool pages_wait = step.run().offload == Offload::kHost && step.run().hbm_pages.mode == HbmPages::Mode::kAuto;
    const std::int64_t budget = step.run().gpu_memory_bytes;
    const auto fits = [&](const Plan& plan) { return budget == 0 || plan.peak_bytes(Tier::kHbm) <= budget; };
    const std::int64_t pages = pages_wait ? 0 : none.resident_pages;
    const auto shards_fit = [&](std::int64_t resident) {
        const StepShape changed = with_shards(resident);
        return fits(plan_with(changed, layout_of(changed), {pages, none.kept_hbm}));
    };
    // All first: they need no ring.
    const std::int64_t shards =
        shards_fit(none.host_shards) ? none.host_shards : most(none.host_shards - 1, shards_fit);
    const StepShape chosen = with_shards(shards);
    const Layout layout = layout_of(chosen);
    const auto plan_of_pages = [&](std::int64_t n) { return plan_with(chosen, layout, {n, none.kept_hbm}); };
    return plan_of_pages(pages_wait ? most(step.total_pages(), [&](std::int64_t n) { return fits(plan_of_pages(n)); })
                                    : pages);
}

Plan Placement::place_pages(const StepShape& step) {
    const RunConfiguration& run = step.run();
    const Layout layout = layout_of(step);
    const auto fits_hbm = [&](Homes homes) {
        return run.gpu_memory_bytes == 0 ||
               plan_with(step, layout, homes).peak_bytes(Tier::kHbm) <= run.gpu_memory_bytes;
    };
    if (run.offload == Offload::kNone) {
        return plan_with(step, layout, {step.total_pages(), step.kept_pages()});
    }
    Homes homes;
    if (run.hbm_pages.mode == HbmPages::Mode::kRing) {
        return plan_with(step, layout, homes);
    }
    if (run.hbm_pages.mode == HbmPages::Mode::kCount) {
        homes.resident = std::min(step.total_pages(), run.hbm_pages.count);
    }
    homes.kept_hbm = most(step.kept_pages(), [&](std::int64_t kept) { return fits_hbm({homes.resident, kept}); });
    if (run.hbm_pages.mode == HbmPages::Mode::kAuto) {
        homes.resident = most(step.total_pages(), [&](std::int64_t resident) {
            return fits_hbm({resident, homes.kept_hbm});
        });
    }
    return plan_with(step, layout, homes);
}

Placement::Layout Placement::layout_of(const StepShape& step) {
    const StepShape representative = representative_of(step);
    const OptimizerShards shards = optimizer_shards(representative);
    const std::tuple key(step.run().keep, representative.held_chunks(), representative.kept_pages(),
                         shards.resident > 0, shards.on_host() > 0);
    auto found = interferences_.find(key);
    if (found == interferences_.end()) {
        found = interferences_.emplace(key, interference_of(step)).first;
    }
    Layout layout{region_sizes(step)};
    for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
        layout.bytes[static_cast<int>(tier)] = assign_offsets(layout.regions, tier, found->second);
    }
    return layout;
}

// Regions, then pools.
Plan Placement::plan_with(const StepShape& step, const Layout& layout, Homes homes) const {
    Plan plan;
    plan.model = step.model();
    plan.run = step.run();
    plan.run.attention_kernels = step.attention_kernels();
    plan.asked = asked_;
    plan.regions = layout.regions;
    plan.pools = make_pools(step, count_frames(step, homes.resident, homes.kept_hbm));
    plan.resident_pages = homes.resident;
    plan.kept_hbm = homes.kept_hbm;
    plan.kept_host = step.kept_pages() - homes.kept_hbm;
    const OptimizerShards shards = optimizer_shards(step);
    plan.resident_shards = shards.resident;
    plan.host_shards = shards.on_host();
    const std::int64_t classes = step.run().forward_only ? 1 : 2;  // K/V pages, and their gradients
    plan.page_table_bytes =
        (classes * step.total_pages() + step.kept_chunks() * step.model().layers) * kPageRecord_bytes;
    std::copy(std::begin(layout.bytes), std::end(layout.bytes), plan.arena_bytes);
    for (PoolPlan& pool : plan.pools) {
        std::int64_t& end = plan.arena_bytes[static_cast<int>(pool.tier)];
        pool.offset_bytes = end;
        end += pool.total_bytes();
        plan.page_table_bytes +=
            pool.frames * (kFrameStateRecord_bytes[static_cast<int>(pool.tier)] + kFrameAccessRecord_bytes);
    }
    return plan;
}

Plan in_larger_pages(const Plan& plan, std::int64_t page_tokens) {
    const StepShape small(plan.model, plan.run);
    const std::int64_t factor = page_tokens / plan.run.page_tokens;
    require(factor * plan.run.page_tokens == page_tokens && plan.run.chunk_tokens % page_tokens == 0 &&
                plan.run.window_tokens % page_tokens == 0,
            "pages of {} tokens do not divide chunks of {} and windows of {}", page_tokens, plan.run.chunk_tokens,
            plan.run.window_tokens);
    Plan large = plan;
    large.run.page_tokens = page_tokens;
    const StepShape step(large.model, large.run);
    const bool all = plan.resident_pages == small.total_pages();
    large.resident_pages =
        all ? step.total_pages() : std::min(step.total_pages(), (plan.resident_pages + factor / 2) / factor);
    large.pools = make_pools(step, count_frames(step, large.resident_pages, plan.kept_hbm));
    return large;
}

Plan of_fewer_layers(const Plan& plan, std::int64_t layers) {
    const std::int64_t all = plan.model.layers;
    require(layers >= 1 && layers <= all, "{} layers of a model of {}", layers, all);
    const auto share = [&](std::int64_t pages) { return (pages * layers + all / 2) / all; };
    Plan fewer = plan;
    fewer.model.layers = layers;
    fewer.model.sliding_windows.resize(std::min<std::size_t>(layers, plan.model.sliding_windows.size()));
    fewer.resident_pages = share(plan.resident_pages);
    fewer.run.kept_pages = {Amount::Mode::kCount, share(plan.kept_pages())};
    fewer.run.resident_shards = {};
    const std::int64_t shards = optimizer_shards(StepShape(fewer.model, fewer.run)).count;
    fewer.host_shards = std::min(plan.host_shards, shards);
    fewer.resident_shards = shards - fewer.host_shards;
    fewer.run.resident_shards = {Amount::Mode::kCount, fewer.resident_shards};
    const StepShape step(fewer.model, fewer.run);
    fewer.kept_hbm = std::min(share(plan.kept_hbm), step.kept_pages());
    fewer.kept_host = step.kept_pages() - fewer.kept_hbm;
    fewer.pools = make_pools(step, count_frames(step, fewer.resident_pages, fewer.kept_hbm));
    return fewer;
}

}  // namespace oomb::schedule
