#pragma once
// Edges of the schedule: whom an operation must wait for, derived from what it reads and writes.

#include <deque>
#include <vector>

#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::issue {

// Who used a buffer since its last write.
struct AccessRecord {
    Ticket last_write = 0;
    schedule::Engine writer = schedule::Engine::kCompute;
    Tickets reads{};
};
static_assert(sizeof(AccessRecord) == kFrameAccessRecord_bytes);

// Program-order walk over accesses. A reader waits for the last writer; a writer waits for the last writer and for all
// readers since. Regions that share bytes count as one buffer for their writers.
class HazardTracker {
  public:
    explicit HazardTracker(const schedule::Plan& plan);

    void begin(schedule::Engine engine);  // next operation, in program order
    void region(const schedule::RegionUse& use);
    void frame(Tier tier, PageClass page_class, std::int32_t frame, schedule::Access how);
    // The same for each of them.
    void frames(Tier tier, PageClass page_class, const std::vector<std::int32_t>& frames, schedule::Access how);
    // Ticket and waits of the operation begun last.
    Ticket finish(Tickets& waits);

    // Host bytes of the records of frames; those of regions are few.
    std::int64_t table_bytes() const;

  private:
    void access(AccessRecord& record, schedule::Access access);
    void wait_for(schedule::Engine engine, Ticket ticket);
    const Tickets* known_before(int engine, Ticket ticket) const;

    std::array<std::vector<AccessRecord>, schedule::kRegions> regions_;  // by slot
    std::array<std::vector<std::size_t>, schedule::kRegions> aliases_;
    std::array<std::array<std::vector<AccessRecord>, kPageClasses>, kTiers> frames_;
    schedule::Engine engine_ = schedule::Engine::kCompute;
    Tickets needed_{};
    std::array<Ticket, schedule::kEngines> issued_{};
    std::array<Tickets, schedule::kEngines>
        known_{};  // known_[e][f]: ticket of f done before e's last operation starts
    // known_ as it was at recent operations, for dropping waits that follow from others.
    std::array<std::deque<Tickets>, schedule::kEngines> history_;
};

}  // namespace oomb::issue
