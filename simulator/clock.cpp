#include "simulator/clock.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/issue/movement.hpp"

namespace oomb::simulator {

using issue::Ticket;
using schedule::Engine;

Clock::Clock(const schedule::Plan& plan, const HardwareProfile& profile, StepObserver* observer)
    : plan_(plan), costs_(plan.run, profile), observer_(observer) {
    for (Lane& lane : lanes_) {
        lane.ring.resize(kRing);
    }
}

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
    if (engine == Engine::kCompute) {
        return costs_.compute_seconds(issued.operation);
    }
    const Engine other = engine == Engine::kHostToDevice ? Engine::kDeviceToHost : Engine::kHostToDevice;
    return costs_.copy_seconds(engine, bytes, busy_at(lanes_[static_cast<int>(other)], begin));
}

void Clock::take(issue::IssuedOperation issued) {
    const auto engine = static_cast<std::size_t>(issued.operation.engine);
    const schedule::OperationId& id = issued.operation.id;
    Lane& lane = lanes_[engine];
    require(issued.ticket == lane.issued + 1, "clock: ticket {} after {}", issued.ticket, lane.issued);
    double begin = lane.free;
    for (std::size_t other = 0; other < schedule::kEngines; ++other) {
        if (issued.waits[other] > 0) {
            begin = std::max(begin, end_of(lanes_[other], issued.waits[other]));
        }
    }
    const issue::Movement movement = issue::movement_of(issued, plan_);
    const double seconds = seconds_of(issued, movement.bytes, begin);
    const double end = begin + seconds;
    if (observer_ != nullptr) {
        observer_->ran(issued, begin, end, movement);
    }
    if (issued.operation.engine == Engine::kCompute) {
        sums_.exposed_copy_seconds += begin - lane.free;  // all other engines copy
        sums_.phase_seconds[static_cast<std::size_t>(id.phase)] += end - lane.free;
    }
    sums_.uses[static_cast<std::size_t>(id.phase)][engine][static_cast<std::size_t>(id.kind)] +=
        {1, seconds, movement.bytes};
    sums_.seconds = std::max(sums_.seconds, end);
    lane.free = end;
    lane.issued = issued.ticket;
    lane.ring[issued.ticket % kRing] = {begin, end};
}

void Clock::wait_idle() {
    for (Lane& lane : lanes_) {
        lane.free = sums_.seconds;
    }
}

}  // namespace oomb::simulator
