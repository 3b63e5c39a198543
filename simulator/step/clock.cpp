#include "simulator/step/clock.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/core/error.hpp"
#include "runtime/issue/movement.hpp"

namespace oomb::simulator {

using issue::Ticket;
using schedule::Engine;

namespace {

constexpr double kRounding = 1e-12;  // of some million sums

}  // namespace

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

// Copies often wait for the same operation, or for one another: what is equal but for rounding must count as equal.
bool Clock::busy_at(const Lane& lane, double moment) {
    moment += kRounding * moment;
    const std::size_t oldest = lane.spans - std::min(lane.spans, kRing);
    for (std::size_t i = lane.spans; i > oldest; --i) {
        const Span& span = lane.busy[(i - 1) % kRing];
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
    const bool both = engine != Engine::kCompute && (busy_at(lanes_[static_cast<int>(other)], begin) ||
                                                     (engine == Engine::kDeviceToHost && expects_fetch_));
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

Clock::Start Clock::start_of(const issue::IssuedOperation& issued, std::int64_t runs, double ready) {
    const Submission submission = durations_.submission(issued.operation, runs);
    const double free = lanes_[static_cast<std::size_t>(issued.operation.engine)].free;
    if (durations_.host() != Host::kFollowed) {
        return {std::max(ready, lists_known_) + submission.gap_seconds, ready - free};
    }
    host_work_ += submission.host_seconds;
    // Until the host reaches an operation its engine waits for the host, whatever it will wait for then.
    const double reached = std::max(submitted_, done_[taken_ % kMostInFlight]) + submission.host_seconds;
    submitted_ = std::max(reached, lists_known_ + submission.host_seconds);
    const double begin = std::max(ready, submitted_) + submission.gap_seconds;
    if (submission.seen) {
        submitted_ = begin;
    }
    return {begin, std::max(0.0, ready - std::max(free, reached))};
}

// Of a copy that would begin at `begin` and take so many seconds if the engine were ours alone.
Clock::Span Clock::in_turns(Lane& lane, double begin, double seconds) const {
    const CopyTurns turns = durations_.copy_turns();
    const double idle = begin - lane.free;
    if (idle > static_cast<double>(kMostLatency_ns) * 1e-9) {  // not the next one of ours, which waits behind the last
        begin = lane.free + std::ceil(idle / turns.other_seconds) * turns.other_seconds;
        lane.turn_used = 0.0;
    }
    const double used = lane.turn_used + seconds;
    const double lost = std::floor(used / turns.own_seconds);
    lane.turn_used = used - lost * turns.own_seconds;
    return {begin, begin + seconds + lost * turns.other_seconds};
}

void Clock::run(const issue::IssuedOperation& issued) {
    const auto engine = static_cast<std::size_t>(issued.operation.engine);
    const schedule::OperationId& id = issued.operation.id;
    Lane& lane = lanes_[engine];
    require(issued.ticket == lane.issued + 1, "clock: ticket {} after {}", issued.ticket, lane.issued);
    const double ready = ready_at(issued);
    const issue::Movement movement = issue::movement_of(issued, plan_);
    auto [begin, waited] = start_of(issued, movement.runs, ready);
    double seconds = seconds_of(issued, movement.bytes, begin);
    if (issued.operation.engine != Engine::kCompute && durations_.copy_turns().shared()) {
        const Span span = in_turns(lane, begin, seconds);
        begin = span.begin;
        seconds = span.end - span.begin;
    }
    const double end = begin + seconds;
    if (observer_ != nullptr) {
        observer_->ran(issued, begin, end, movement);
    }
    const Ran ran{id, issued.operation.engine, 1, begin, seconds, waited, begin - lane.free - waited, movement.bytes};
    count(ran);
    if (issued.operation.engine == Engine::kCompute) {
        sums_.list_wait_seconds += std::max(0.0, lists_known_ - ready);
    }
    if (log_ != nullptr) {
        log_->push_back(ran);
    }
    sums_.seconds = std::max(sums_.seconds, end);
    done_[taken_++ % kMostInFlight] = sums_.seconds;
    lane.free = end;
    lane.issued = issued.ticket;
    lane.ring[issued.ticket % kRing] = {begin, end};
    if (issued.operation.engine != Engine::kCompute) {
        lane.add_busy({begin, end});
    }
}

void Clock::count(const Ran& ran) {
    const auto phase = static_cast<std::size_t>(ran.id.phase);
    const auto n = static_cast<double>(ran.times);
    if (ran.engine == Engine::kCompute) {
        sums_.exposed_copy_seconds += n * ran.waited;  // all other engines copy
        sums_.phase_seconds[phase] += n * (ran.waited + ran.gap + ran.seconds);
    }
    sums_.uses[phase][static_cast<std::size_t>(ran.engine)][static_cast<std::size_t>(ran.id.kind)] +=
        {ran.times, n * ran.seconds, ran.times * ran.bytes};
}

Clock::Place Clock::place() const {
    Place place;
    place.taken = taken_;
    place.submitted = submitted_;
    place.host_work = host_work_;
    for (std::size_t engine = 0; engine < schedule::kEngines; ++engine) {
        place.issued[engine] = lanes_[engine].issued;
        place.busy[engine] = lanes_[engine].spans;
    }
    return place;
}

void Clock::repeat_submission(const Place& last, std::int64_t times, double later) {
    const auto each = static_cast<std::int64_t>(taken_ - last.taken), all = times * each;
    const std::vector<double> done = done_;
    const std::size_t end = taken_;
    for (std::int64_t i = std::max<std::int64_t>(0, all - kMostInFlight); i < all; ++i) {
        const std::size_t like = last.taken + static_cast<std::size_t>(i % each);
        const std::int64_t round = i / each + 1;
        done_[(end + i) % kMostInFlight] = done[like % kMostInFlight] + static_cast<double>(round) * later;
    }
    taken_ += static_cast<std::size_t>(all);
    const double work = static_cast<double>(times) * (host_work_ - last.host_work);
    const double growth = submitted_ - last.submitted;
    // A host that came forward faster than the engines was let on by operations before these; it still works for each,
    // and goes no further ahead than it may.
    submitted_ = growth <= later ? submitted_ + static_cast<double>(times) * growth
                                 : std::max(submitted_ + work, done_[taken_ % kMostInFlight]);
    host_work_ += work;
}

void Clock::repeat(const Place& first, const Place& last, std::int64_t times, double later) {
    repeat_submission(last, times, later);
    const double seconds = static_cast<double>(times) * later;
    for (std::size_t engine = 0; engine < schedule::kEngines; ++engine) {
        Lane& lane = lanes_[engine];
        if (lane.issued == last.issued[engine]) {
            continue;
        }
        const Ticket oldest = lane.issued - std::min<Ticket>(lane.issued, kRing);
        for (Ticket ticket = std::max(first.issued[engine], oldest) + 1; ticket <= lane.issued; ++ticket) {
            Span& span = lane.ring[ticket % kRing];
            span = {span.begin + seconds, span.end + seconds};
        }
        const std::size_t spans = lane.spans;
        for (std::size_t i = std::max(first.busy[engine], spans - std::min(spans, kRing / 2)); i < spans; ++i) {
            const Span span = lane.busy[i % kRing];
            // Where less is repeated than there was, the first of it falls on what there was.
            if ((span.begin + span.end) / 2 + seconds > lane.busy[(spans - 1) % kRing].end) {
                lane.add_busy({span.begin + seconds, span.end + seconds});
            }
        }
        lane.free += seconds;
        sums_.seconds = std::max(sums_.seconds, lane.free);
    }
}

void Clock::wait_for_lists(Ticket stored) {
    if (stored > 0) {
        const Lane& lane = lanes_[static_cast<std::size_t>(Engine::kDeviceToHost)];
        lists_known_ = std::max(lists_known_, end_of(lane, stored) + kListLatencySeconds);
    }
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
