#include "simulator/report/plan_lines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb::simulator {
namespace {

using schedule::RegionName;
using schedule::StepShape;

constexpr std::size_t kMembersShown = 6;

// Never begun by an operation, so they share bytes with nothing.
bool lives_all_step(const schedule::Plan& plan, RegionName name) {
    switch (name) {
        case RegionName::kWeights:
        case RegionName::kMasterWeights:
        case RegionName::kGradients:
        case RegionName::kVectorGradients:
        case RegionName::kMoments:
        case RegionName::kPageMeans:
        case RegionName::kOptimizerShard:
        case RegionName::kWorkspace:
        case RegionName::kScalars:
        case RegionName::kHostTokens:
        case RegionName::kHostPageLists:
        case RegionName::kHostLosses:
        case RegionName::kRecall:
        case RegionName::kHostStates:
            return true;
        case RegionName::kLayerInput:
        case RegionName::kAttentionOutput:
        case RegionName::kLogSumExp:
        case RegionName::kQkv:
        case RegionName::kMiddle:
        case RegionName::kGateUp:
            return StepShape(plan.model, plan.run).held_chunks() > 0;
        default:
            return false;
    }
}

// Of states that do not all lie in one place: which.
std::string shards_text(const schedule::Plan& plan, RegionName name) {
    const std::int64_t all = plan.resident_shards + plan.host_shards;
    const bool in_hbm = name == RegionName::kMoments || name == RegionName::kMasterWeights;
    if (plan.host_shards == 0 || !(in_hbm || name == RegionName::kHostStates)) {
        return "";
    }
    return fmt::format("; {} of {} shards", format_count(in_hbm ? plan.resident_shards : plan.host_shards),
                       format_count(all));
}

std::string explain(const schedule::Plan& plan, RegionName name, const schedule::Region& region) {
    std::string text(schedule::explanation_of(name));
    if (const std::string shards = shards_text(plan, name); !shards.empty()) {
        return text + shards;
    }
    if (region.slots > 1) {
        text += fmt::format("; {} slots", region.slots);
    }
    return text;
}

std::int64_t pool_bytes(const schedule::Plan& plan, Tier tier) {
    std::int64_t sum = 0;
    for (const schedule::PoolPlan& pool : plan.pools) {
        sum += pool.tier == tier ? pool.total_bytes() : 0;
    }
    return sum;
}

void append_regions(const schedule::Plan& plan, Tier tier, std::vector<PlanLine>& lines) {
    std::int64_t packed = plan.arena_bytes[static_cast<int>(tier)] - pool_bytes(plan, tier);
    std::vector<PlanLine> members;
    for (int i = 0; i < schedule::kRegions; ++i) {
        const auto name = static_cast<RegionName>(i);
        const schedule::Region& region = schedule::region_of(plan.regions, name);
        if (region.tier != tier || region.total_bytes() == 0) {
            continue;
        }
        const bool shares = !lives_all_step(plan, name);
        (shares ? members : lines)
            .push_back({tier, std::string(schedule::name_of(name)), region.total_bytes(), explain(plan, name, region),
                        shares});
        packed -= shares ? 0 : region.total_bytes();
    }
    require(packed >= 0, "plan: the regions of {} are larger than its arena", name_of(tier));
    if (packed > 0) {
        lines.push_back({tier, "working buffers", packed,
                         fmt::format("{} buffers that share these bytes over time; the largest:", members.size())});
    }
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    members.resize(std::min(members.size(), kMembersShown));
    lines.insert(lines.end(), members.begin(), members.end());
}

std::string_view title_of(PageClass page_class) {
    switch (page_class) {
        case PageClass::kKv:
            return "K/V pages";
        case PageClass::kKvGradient:
            return "K/V gradient pages";
        case PageClass::kActivation:
            return "kept activations";
    }
    return "";
}

std::string_view kept_text(Keep keep) {
    if (!keeps_output(keep)) {
        return "layer input";
    }
    return keeps_input(keep) ? "layer input, attention output, log-sum-exp" : "attention output, log-sum-exp";
}

// Why there are so many frames.
std::string placement_of(const schedule::Plan& plan, const schedule::PoolPlan& pool, const StepShape& step) {
    if (pool.page_class == PageClass::kActivation) {
        const std::int64_t all = step.keepable_chunks() * step.model().layers;
        const std::string part =
            plan.kept_pages() < all
                ? fmt::format("; {} of {} are kept", format_count(plan.kept_pages()), format_count(all))
                : "";
        return fmt::format("one per chunk and layer: {}{}", kept_text(plan.run.keep), part);
    }
    if (pool.tier == Tier::kHost) {
        return fmt::format("home of pages not resident {}",
                           plan.run.device == DeviceKind::kCuda ? "in HBM" : "in the arena");
    }
    if (plan.resident_pages == step.total_pages()) {
        return "all resident";
    }
    const std::int64_t resident = std::min(plan.resident_pages, pool.frames);
    return fmt::format("{} resident + a ring of {}", format_count(resident), format_count(pool.frames - resident));
}

std::string explain(const schedule::Plan& plan, const schedule::PoolPlan& pool, const StepShape& step) {
    std::int64_t frame_bytes = 0;
    for (const std::int64_t bytes : pool.plane_bytes) {
        frame_bytes += bytes;
    }
    return fmt::format("{} frames of {}, {}", format_count(pool.frames), format_bytes_short(frame_bytes),
                       placement_of(plan, pool, step));
}

}  // namespace

std::vector<PlanLine> lines_of(const schedule::Plan& plan) {
    const StepShape step(plan.model, plan.run);
    std::vector<PlanLine> lines;
    for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
        append_regions(plan, tier, lines);
        for (const schedule::PoolPlan& pool : plan.pools) {
            if (pool.tier == tier) {
                lines.push_back(
                    {tier, std::string(title_of(pool.page_class)), pool.total_bytes(), explain(plan, pool, step)});
            }
        }
        if (tier == Tier::kHbm && plan.driver_bytes() > 0) {
            lines.push_back(
                {tier, "driver", plan.driver_bytes(),
                 "CUDA context and modules of libraries, measured, and 2 MiB for what the driver rounds up"});
        }
    }
    lines.push_back(
        {Tier::kHost, "page tables", plan.page_table_bytes, "where each page is, who used each frame last"});
    return lines;
}

}  // namespace oomb::simulator
