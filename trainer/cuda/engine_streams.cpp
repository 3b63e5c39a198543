#include "trainer/cuda/engine_streams.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "kernels/cuda/accumulate.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/check.hpp"

namespace oomb::trainer {

using issue::IssuedOperation;
using schedule::Engine;

namespace {

constexpr std::size_t kStamps = 4096;   // two for a pending operation, and a few
constexpr double kRebaseSeconds = 2.0;  // an elapsed time is a float of milliseconds: 0.1 us at this distance
constexpr std::int64_t kMostDelay_ns = 200'000;

int index_of(Engine engine) {
    return static_cast<int>(engine);
}

}  // namespace

EngineStreams::EngineStreams(const schedule::Plan& plan, const device::ArenaView& hbm, const device::ArenaView& host,
                             const EngineStreamsOptions& options)
    : plan_(plan),
      transfers_(hbm, host, {.events = 8, .timing = device::Timing::kOff, .calls = options.copy_calls}),
      wait_for_event_(options.wait_for_event),
      stressed_(options.stress_seed.has_value()),
      random_(options.stress_seed.value_or(0)) {
    for (auto& ring : tickets_) {
        for (std::size_t i = 0; i < kTicketRing; ++i) {
            ring.emplace_back();
        }
    }
    for (std::size_t i = 0; i < kStamps; ++i) {
        stamps_.emplace_back(device::Timing::kOn);
        free_stamps_.push_back(static_cast<std::int32_t>(i));
    }
    compute_.enqueue_record(base_.get());
}

// Work that is still queued reads and writes memory that is about to be freed.
EngineStreams::~EngineStreams() {
    cudaStreamSynchronize(compute_.get());
}

const device::Stream& EngineStreams::stream(Engine engine) const {
    switch (engine) {
        case Engine::kCompute:
            return compute_;
        case Engine::kHostToDevice:
            return transfers_.stream(device::Direction::kHostToDevice);
        case Engine::kDeviceToHost:
            return transfers_.stream(device::Direction::kDeviceToHost);
        default:
            fail<InternalError>("CUDA: no stream for engine {}", name_of(engine));
    }
}

// The event of a ticket that the ring no longer holds was recorded before the oldest it does hold.
cudaEvent_t EngineStreams::ticket_event(int engine, issue::Ticket ticket) const {
    const issue::Ticket newest = issued_[engine];
    require(ticket >= 1 && ticket <= newest, "CUDA: ticket {} of engine {}, which has issued {}", ticket, engine,
            newest);
    const issue::Ticket held = newest >= kTicketRing ? newest - kTicketRing + 1 : 1;
    return tickets_[engine][std::max(ticket, held) % kTicketRing].get();
}

void EngineStreams::wait_for_ticket(Engine engine, issue::Ticket ticket) const {
    if (ticket != 0) {
        device::check(wait_for_event_(ticket_event(index_of(engine), ticket)), "cudaEventSynchronize");
    }
}

void EngineStreams::begin(const IssuedOperation& issued, const Timed& timed) {
    const Engine engine = issued.operation.engine;
    if (engine == Engine::kCompute && phase_ != issued.operation.id.phase) {
        mark_phase(issued.operation.id.phase);
    }
    wait_for(issued);
    delay_at_random(engine);
    operation_begin_ = engine != Engine::kCompute || timed ? stamp(stream(engine)) : -1;
}

// Compute that has to wait for a copy is stamped before and after: the time between is what the copy costs.
void EngineStreams::wait_for(const IssuedOperation& issued) {
    const Engine engine = issued.operation.engine;
    std::int32_t before = -1;
    for (int other = 0; other < kStreams; ++other) {
        const issue::Ticket ticket = issued.waits[other];
        if (ticket == 0 || other == index_of(engine)) {
            continue;
        }
        const cudaEvent_t event = ticket_event(other, ticket);
        const cudaError_t status = cudaEventQuery(event);
        if (status == cudaSuccess) {
            continue;
        }
        if (status != cudaErrorNotReady) {
            device::check(status, "cudaEventQuery");
        }
        if (engine == Engine::kCompute && before < 0) {
            before = stamp(compute_);
        }
        stream(engine).enqueue_wait(event);
    }
    if (before >= 0) {
        Pending exposed;
        exposed.mark = Mark::kExposed;
        exposed.begin = before;
        exposed.end = stamp(compute_);
        push(exposed);
    }
}

void EngineStreams::mark_phase(schedule::Phase phase) {
    const std::int32_t now = stamp(compute_);
    if (phase_) {
        Pending passed;
        passed.mark = Mark::kPhase;
        passed.operation.id.phase = *phase_;
        passed.begin = phase_begin_;
        passed.end = now;
        push(passed);
        // The same moment begins the next phase; a stamp of its own, for the two are given back separately.
        phase_begin_ = stamp(compute_);
    } else {
        phase_begin_ = now;
    }
    phase_ = phase;
}

void EngineStreams::copy(device::Direction direction, std::span<const device::Copy> copies) {
    transfers_.enqueue(direction, copies);
}

void EngineStreams::end(const IssuedOperation& issued, const Done& done, const Timed& timed) {
    const int engine = index_of(issued.operation.engine);
    require(issued.ticket == issued_[engine] + 1, "CUDA: ticket {} of engine {} after {}", issued.ticket, engine,
            issued_[engine]);
    const std::int32_t end = operation_begin_ >= 0 ? stamp(stream(issued.operation.engine)) : -1;
    stream(issued.operation.engine).enqueue_record(tickets_[engine][issued.ticket % kTicketRing].get());
    issued_[engine] = issued.ticket;
    if (end >= 0 || done) {
        Pending pending;
        pending.operation = issued.operation;
        pending.ticket = issued.ticket;
        pending.begin = std::exchange(operation_begin_, -1);
        pending.end = end;
        pending.moved = issue::movement_of(issued, plan_);
        push(pending);
    }
    report_done(done, timed);
}

void EngineStreams::push(const Pending& pending) {
    pending_.push_back(pending);
}

std::int32_t EngineStreams::stamp(const device::Stream& stream) {
    require(!free_stamps_.empty(), "CUDA: all {} time stamps are in use", kStamps);
    const std::int32_t taken = free_stamps_.back();
    free_stamps_.pop_back();
    stream.enqueue_record(stamps_[taken].get());
    return taken;
}

void EngineStreams::release(std::int32_t stamp) {
    if (stamp >= 0) {
        free_stamps_.push_back(stamp);
    }
}

double EngineStreams::seconds_of(std::int32_t stamp) {
    return base_seconds_ + 1e-3 * device::milliseconds_between(base_, stamps_[stamp]);
}

bool EngineStreams::is_done(const Pending& pending) const {
    if (pending.end >= 0) {
        return stamps_[pending.end].done();
    }
    const int engine = index_of(pending.operation.engine);
    return tickets_[engine][pending.ticket % kTicketRing].done();
}

// Reports what has completed; more than kMostPending that has not makes the host wait for the oldest.
void EngineStreams::report_done(const Done& done, const Timed& timed) {
    while (!pending_.empty()) {
        const Pending& front = pending_.front();
        if (!is_done(front)) {
            if (pending_.size() <= kMostPending) {
                return;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            continue;
        }
        report(front, done, timed);
        release(front.begin);
        release(front.end);
        pending_.pop_front();
    }
}

void EngineStreams::report(const Pending& pending, const Done& done, const Timed& timed) {
    double begin = 0.0, end = 0.0;
    if (pending.end >= 0) {
        begin = seconds_of(pending.begin);
        end = seconds_of(pending.end);
    }
    switch (pending.mark) {
        case Mark::kPhase:
            phase_seconds_[static_cast<int>(pending.operation.id.phase)] += end - begin;
            break;
        case Mark::kExposed:
            exposed_seconds_ += end - begin;
            break;
        case Mark::kOperation: {
            const int engine = index_of(pending.operation.engine);
            if (pending.operation.engine != Engine::kCompute) {
                copied_[engine].bytes += pending.moved.bytes;
                copied_[engine].seconds += end - begin;
            }
            if (timed && pending.end >= 0) {
                timed({&pending.operation, begin, end, pending.moved.bytes, pending.moved.pages});
            }
            if (done) {
                done(pending.operation);
            }
            break;
        }
    }
    if (pending.end >= 0 && end - base_seconds_ > kRebaseSeconds) {
        std::swap(base_, stamps_[pending.end]);
        base_seconds_ = end;
    }
}

void EngineStreams::wait_idle(const Done& done, const Timed& timed) {
    if (phase_) {
        mark_phase(*phase_);
        release(std::exchange(phase_begin_, -1));
        phase_.reset();
    }
    while (!pending_.empty()) {
        report_done(done, timed);
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    compute_.wait_idle();
    transfers_.wait_idle();
}

void EngineStreams::delay_at_random(Engine engine) {
    if (stressed_ && random_() % 4 == 0) {
        kernels::cuda::delay(static_cast<std::int64_t>(random_() % kMostDelay_ns), stream(engine).get());
    }
}

}  // namespace oomb::trainer
