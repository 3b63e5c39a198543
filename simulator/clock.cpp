#include "simulator/clock.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/issue/movement.hpp"

namespace oomb::simulator {

using issue::Ticket;
using schedule::Engine;

Clock::Clock(const schedule::Plan& plan, Durations& durations, StepObserver* observer)
    : plan_(plan), durations_(durations), done_(kMostInFlight), observer_(observer) {}

Clock::Clock(const schedule::Plan& plan, const HardwareProfile& profile, StepObserver* observer)
    : plan_(plan),
      own_(std::make_unique<ProfileDurations>(plan.run, profile)),
      durations_(*own_),
      done_(kMostInFlight),
      observer_(observer) {}

double Clock::end_of(const Lane& lane, Ticket ticket) const {
    require(ticket <= lane.issued, "clock: ticket {} of an engine that was given {}", ticket, lane.issued);
    const Ticket oldest = lane.issued >= kRing ? lane.issued - kRing + 1 : 1;
    return lane.ring[std::max(ticket, oldest) % kRing].end;
}

bool Clock::busy_at(const Lane& lane, double moment) const {
    const Ticket oldest = lane.issued >= kRing ? lane.issued - kRing + 1 : 1;
    for (Ticket ticket = lane.issued; ticket >= oldest; --ticket) {
        const Span& span = lane.ring[ticket % kRing];
        if (span.end <= moment) {
            return false;
        }
        if (span.begin <= moment) {
            return true;
        }
    }
    return false;
}

double Clock::seconds_of(const issue::IssuedOperation& issued, std::int64_t bytes, double begin) const {
    const Engine engine = issued.operation.engine;
    const Engine other = engine == Engine::kHostToDevice ? Engine::kDeviceToHost : Engine::kHostToDevice;
    const bool both = engine != Engine::kCompute && busy_at(lanes_[static_cast<int>(other)], begin);
    return durations_.seconds(issued.operation, bytes, both);
}

// The engine is free, and what the operation waits for is done.
double Clock::ready_at(const issue::IssuedOperation& issued) const {
    double ready =
        durations_.host() == Host::kOneEngine ? sums_.seconds : lanes_[static_cast<int>(issued.operation.engine)].free;
    for (std::size_t other = 0; other < schedule::kEngines; ++other) {
        if (issued.waits[other] > 0) {
            ready = std::max(ready, end_of(lanes_[other], issued.waits[other]));
        }
    }
    return ready;
}

double Clock::begin_of(const issue::IssuedOperation& issued, double ready) {
    const Submission submission = durations_.submission(issued.operation);
    if (durations_.host() != Host::kFollowed) {
        return ready + submission.gap_seconds;
    }
    submitted_ = std::max(submitted_, done_[taken_ % kMostInFlight]) + submission.host_seconds;
    const double begin = std::max(ready, submitted_) + submission.gap_seconds;
    if (submission.seen) {
        submitted_ = begin;
    }
    return begin;
}

void Clock::take(issue::IssuedOperation issued) {
    const auto engine = static_cast<std::size_t>(issued.operation.engine);
    const schedule::OperationId& id = issued.operation.id;
    Lane& lane = lanes_[engine];
    require(issued.ticket == lane.issued + 1, "clock: ticket {} after {}", issued.ticket, lane.issued);
    const double ready = ready_at(issued);
    const double begin = begin_of(issued, ready);
    const issue::Movement movement = issue::movement_of(issued, plan_);
    const double seconds = seconds_of(issued, movement.bytes, begin);
    const double end = begin + seconds;
    if (observer_ != nullptr) {
        observer_->ran(issued, begin, end, movement);
    }
    if (issued.operation.engine == Engine::kCompute) {
        sums_.exposed_copy_seconds += ready - lane.free;  // all other engines copy
        sums_.phase_seconds[static_cast<std::size_t>(id.phase)] += end - lane.free;
    }
    sums_.uses[static_cast<std::size_t>(id.phase)][engine][static_cast<std::size_t>(id.kind)] +=
        {1, seconds, movement.bytes};
    sums_.seconds = std::max(sums_.seconds, end);
    done_[taken_++ % kMostInFlight] = sums_.seconds;
    lane.free = end;
    lane.issued = issued.ticket;
    lane.ring[issued.ticket % kRing] = {begin, end};
}

void Clock::wait_idle() {
    if (observer_ != nullptr) {
        observer_->waited();
    }
    submitted_ = sums_.seconds;
    for (Lane& lane : lanes_) {
        lane.free = sums_.seconds;
    }
}

}  // namespace oomb::simulator
