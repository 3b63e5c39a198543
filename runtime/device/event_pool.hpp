#pragma once
// Events made once and lent out, so that a step creates none.

#include <cstdint>
#include <vector>

#include "runtime/device/stream.hpp"

namespace oomb::device {

class EventPool;

// An event of a pool, given back when the lease is destroyed. Giving it back is safe once every stream that is to wait
// for it has been told so (Stream::enqueue_wait): such a wait keeps what it was told even if the event is recorded
// again. Whoever polls done() keeps the lease until then.
class EventLease {
  public:
    EventLease() = default;
    EventLease(EventLease&& other) noexcept;
    EventLease& operator=(EventLease&& other) noexcept;
    EventLease(const EventLease&) = delete;
    EventLease& operator=(const EventLease&) = delete;
    ~EventLease() { give_back(); }

    explicit operator bool() const { return pool_ != nullptr; }
    const Event& event() const;  // InternalError on an empty lease
    cudaEvent_t get() const { return event().get(); }
    void give_back() noexcept;

  private:
    friend class EventPool;
    EventLease(EventPool& pool, std::size_t slot) : pool_(&pool), slot_(slot) {}

    EventPool* pool_ = nullptr;
    std::size_t slot_ = 0;
};

// Used by one thread. Must outlive its leases.
class EventPool {
  public:
    explicit EventPool(std::int64_t events, Timing timing = Timing::kOff);  // throws CudaError
    EventPool(const EventPool&) = delete;
    EventPool& operator=(const EventPool&) = delete;

    EventLease lease();  // allocates nothing; InternalError when all are lent
    std::int64_t size() const { return static_cast<std::int64_t>(events_.size()); }
    std::int64_t free() const { return static_cast<std::int64_t>(free_slots_.size()); }

  private:
    friend class EventLease;

    std::vector<Event> events_;
    std::vector<std::size_t> free_slots_;  // room for all is reserved
};

}  // namespace oomb::device
