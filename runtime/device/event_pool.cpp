#include "runtime/device/event_pool.hpp"

#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::device {

EventLease::EventLease(EventLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), slot_(std::exchange(other.slot_, 0)) {}

EventLease& EventLease::operator=(EventLease&& other) noexcept {
    if (this != &other) {
        give_back();
        pool_ = std::exchange(other.pool_, nullptr);
        slot_ = std::exchange(other.slot_, 0);
    }
    return *this;
}

const Event& EventLease::event() const {
    require(pool_ != nullptr, "an empty event lease was used");
    return pool_->events_[slot_];
}

void EventLease::give_back() noexcept {
    if (pool_ != nullptr) {
        pool_->free_slots_.push_back(slot_);
        pool_ = nullptr;
    }
}

EventPool::EventPool(std::int64_t events, Timing timing) {
    require(events > 0, "event pool of {} events", events);
    events_.reserve(static_cast<std::size_t>(events));
    free_slots_.reserve(static_cast<std::size_t>(events));
    for (std::int64_t i = 0; i < events; ++i) {
        events_.emplace_back(timing);
        free_slots_.push_back(static_cast<std::size_t>(i));
    }
}

EventLease EventPool::lease() {
    require(!free_slots_.empty(), "all {} events of the pool are lent", events_.size());
    const std::size_t slot = free_slots_.back();
    free_slots_.pop_back();
    return {*this, slot};
}

}  // namespace oomb::device
