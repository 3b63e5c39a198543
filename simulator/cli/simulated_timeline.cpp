#include "simulator/cli/simulated_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/core/version.hpp"
#include "simulator/step/observer.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::simulator {
namespace {

using schedule::kRegions;
static_assert(kRegions <= 64);

std::int64_t nanoseconds(double seconds) {
    return std::llround(seconds * 1e9);
}

// What holds bytes at one moment.
struct Holders {
    std::uint64_t working = 0;  // a bit per region that has begun and not ended
    std::int64_t frames[kTiers][kPageClasses] = {};
    bool operator==(const Holders&) const = default;
};

class Recorder : public StepObserver {
  public:
    explicit Recorder(timeline::Timeline& timeline) : timeline_(timeline) {}

    void begins(const issue::Issuer& issuer) override { issuer_ = &issuer; }

    void ran(const issue::IssuedOperation& issued, double begin, double end, const issue::Movement& movement) override {
        const schedule::Operation& operation = issued.operation;
        timeline_.add({.step = 1,
                       .id = operation.id,
                       .engine = operation.engine,
                       .begin_ns = nanoseconds(begin),
                       .end_ns = nanoseconds(end),
                       .bytes = movement.bytes,
                       .pages = movement.pages});
        Holders now = points_.empty() ? Holders{} : points_.back().second;
        now.working = (now.working & ~ended_) | bits_of(operation, &schedule::RegionUse::begins);
        ended_ = bits_of(operation, &schedule::RegionUse::ends);
        for (int tier = 0; tier < kTiers; ++tier) {
            for (int page_class = 0; page_class < kPageClasses; ++page_class) {
                now.frames[tier][page_class] =
                    issuer_->residency(static_cast<PageClass>(page_class)).pool(static_cast<Tier>(tier)).in_use();
            }
        }
        ever_worked_ |= now.working;
        if (points_.empty() || points_.back().second != now) {
            points_.emplace_back(nanoseconds(begin), now);
        }
    }

    // Engines run beside one another: the order of the schedule is not that of time.
    void finish(const schedule::Plan& plan) {
        std::stable_sort(points_.begin(), points_.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
            timeline_.memory.push_back(track_of(plan, tier));
        }
    }

  private:
    static std::uint64_t bits_of(const schedule::Operation& operation, bool schedule::RegionUse::*which) {
        std::uint64_t bits = 0;
        for (const schedule::RegionUse& use : operation.regions) {
            bits |= use.*which ? std::uint64_t{1} << static_cast<int>(use.region) : 0;
        }
        return bits;
    }

    // Of the regions in a tier whose bit is set.
    static std::int64_t region_bytes(const schedule::Plan& plan, Tier tier, std::uint64_t bits) {
        std::int64_t bytes = 0;
        for (int name = 0; name < kRegions; ++name) {
            const schedule::Region& region = plan.regions[static_cast<std::size_t>(name)];
            bytes += region.tier == tier && (bits >> name & 1) != 0 ? region.total_bytes() : 0;
        }
        return bytes;
    }

    static std::int64_t frame_bytes(const schedule::Plan& plan, Tier tier, PageClass page_class) {
        const schedule::PoolPlan* pool = plan.pool(tier, page_class);
        return pool == nullptr ? 0
                               : std::accumulate(pool->plane_bytes.begin(), pool->plane_bytes.end(), std::int64_t{0});
    }

    timeline::MemoryTrack track_of(const schedule::Plan& plan, Tier tier) const {
        const bool hbm = tier == Tier::kHbm;
        timeline::MemoryTrack track{.tier = hbm ? "GPU memory" : "host memory",
                                    .parts = {hbm ? "driver" : "page tables", "fixed buffers", "working buffers",
                                              "K/V pages", "K/V gradient pages", "kept activations"},
                                    .reserved_bytes = plan.peak_bytes(tier)};
        const std::int64_t outside = plan.peak_bytes(tier) - plan.arena_bytes[static_cast<int>(tier)];
        const std::int64_t fixed = region_bytes(plan, tier, ~ever_worked_);
        for (const auto& [at_ns, holders] : points_) {
            timeline::MemoryPoint point{at_ns, {outside, fixed, region_bytes(plan, tier, holders.working)}};
            for (int page_class = 0; page_class < kPageClasses; ++page_class) {
                point.bytes.push_back(holders.frames[static_cast<int>(tier)][page_class] *
                                      frame_bytes(plan, tier, static_cast<PageClass>(page_class)));
            }
            track.points.push_back(std::move(point));
        }
        return track;
    }

    timeline::Timeline& timeline_;
    const issue::Issuer* issuer_ = nullptr;
    std::vector<std::pair<std::int64_t, Holders>> points_;
    std::uint64_t ended_ = 0, ever_worked_ = 0;
};

}  // namespace

timeline::Timeline simulated_timeline(const schedule::Plan& plan, const HardwareProfile& profile,
                                      const ListSource& lists) {
    const BuildInfo& build = build_info();
    timeline::Timeline timeline{.program = fmt::format("oomb-plan {} ({})", build.version, build.commit),
                                .device = profile.name,
                                .clock = "simulated",
                                .plan = Json::parse(schedule::to_json(plan)),
                                .step = 1};
    Recorder recorder(timeline);
    simulate_step(plan, profile, &recorder, lists);
    recorder.finish(plan);
    return timeline;
}

}  // namespace oomb::simulator
