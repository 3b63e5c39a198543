#pragma once
// A tracker on a small plan of our own, and what an independent reader says of its waits.

#include <set>
#include <vector>

#include "runtime/issue/hazard_tracker.hpp"

namespace oomb::testing {

using issue::Ticket;
using issue::Tickets;
using schedule::Access;
using schedule::Engine;
using schedule::kEngines;
using schedule::RegionName;

// Two regions that share bytes, one beside them with two slots, four frames in each tier.
inline schedule::Plan hazard_plan() {
    schedule::Plan plan;
    region_of(plan.regions, RegionName::kNormed) = {Tier::kHbm, 256, 1, 0};
    region_of(plan.regions, RegionName::kQkv) = {Tier::kHbm, 512, 1, 0};
    region_of(plan.regions, RegionName::kTokens) = {Tier::kHbm, 256, 2, 512};
    region_of(plan.regions, RegionName::kHostTokens) = {Tier::kHost, 256, 1, 0};
    plan.pools = {{Tier::kHbm, PageClass::kKv, 4, {64, 64}, 1024}, {Tier::kHost, PageClass::kKv, 4, {64, 64}, 256}};
    return plan;
}

// An operation as the tracker was told of it, and what it answered.
struct Tracked {
    Engine engine = Engine::kCompute;
    Ticket ticket = 0;
    Tickets waits{};
};

class TrackerCase {
  public:
    TrackerCase() : plan_(hazard_plan()), tracker_(plan_) {}

    struct FrameUse {
        Tier tier;
        std::int32_t frame;
        Access access;
    };
    Tracked operation(Engine engine, const std::vector<schedule::RegionUse>& regions,
                      const std::vector<FrameUse>& frames = {}) {
        tracker_.begin(engine);
        for (const auto& use : regions) {
            tracker_.region(use);
        }
        for (const FrameUse& use : frames) {
            tracker_.frame(use.tier, PageClass::kKv, use.frame, use.access);
        }
        Tracked result{engine, 0, {}};
        result.ticket = tracker_.finish(result.waits);
        return result;
    }

  private:
    schedule::Plan plan_;
    issue::HazardTracker tracker_;
};

// Operations by number, and which of them each one comes after: by its engine's order and by waits, nothing else.
class HappensBefore {
  public:
    void add(const Tracked& operation) {
        std::set<std::size_t> before = closure(operation, operation.waits);
        by_ticket_[index(operation.engine)].push_back(operations_.size());
        operations_.push_back(operation);
        before_.push_back(std::move(before));
    }
    bool ordered(std::size_t earlier, std::size_t later) const { return before_[later].contains(earlier); }

    // The wait of operation `number` for `engine` adds nothing to its engine's order and its other waits.
    bool redundant(std::size_t number, int engine) const {
        Tickets others = operations_[number].waits;
        others[engine] = 0;
        const std::size_t target = by_ticket_[engine][operations_[number].waits[engine] - 1];
        return closure(operations_[number], others).contains(target);
    }
    const std::vector<Tracked>& operations() const { return operations_; }

  private:
    static std::size_t index(Engine engine) { return static_cast<std::size_t>(engine); }

    std::set<std::size_t> closure(const Tracked& operation, const Tickets& waits) const {
        std::set<std::size_t> before;
        const auto follow = [&](std::size_t engine, Ticket ticket) {
            if (ticket > 0) {
                const std::size_t other = by_ticket_[engine].at(ticket - 1);
                before.insert(other);
                before.insert(before_[other].begin(), before_[other].end());
            }
        };
        follow(index(operation.engine), operation.ticket - 1);
        for (std::size_t engine = 0; engine < kEngines; ++engine) {
            follow(engine, waits[engine]);
        }
        return before;
    }

    std::vector<Tracked> operations_;
    std::vector<std::set<std::size_t>> before_;
    std::array<std::vector<std::size_t>, kEngines> by_ticket_;
};

}  // namespace oomb::testing
