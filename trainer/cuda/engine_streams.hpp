#pragma once
// The engines of a GPU as streams: operations in program order go in, each stream runs its own in that order, and a
// wait for another engine's ticket is an event. Nothing here blocks the host but wait_idle() and a full pending list.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "runtime/device/transfer_engine.hpp"
#include "runtime/issue/issued_operation.hpp"
#include "runtime/issue/movement.hpp"
#include "trainer/executor/backend.hpp"

namespace oomb::trainer {

struct EngineStreamsOptions {
    device::CopyCalls copy_calls;                                       // tests put failing ones in place,
    cudaError_t (*wait_for_event)(cudaEvent_t) = cudaEventSynchronize;  // and here
    std::optional<std::uint64_t> stress_seed;  // delays every stream at random between operations
};

class EngineStreams {
  public:
    using Done = std::function<void(const schedule::Operation&)>;
    using Timed = std::function<void(const OperationRecord&)>;

    // `plan` and the arenas outlive this.
    EngineStreams(const schedule::Plan& plan, const device::ArenaView& hbm, const device::ArenaView& host,
                  const EngineStreamsOptions& options);
    ~EngineStreams();

    cudaStream_t compute() const { return compute_.get(); }

    // Around the work of an operation. begin(): what is enqueued next on its engine runs after its waits. end(): its
    // ticket stands for what was enqueued. `done` and `timed` are called for operations that have completed, here or
    // later, in program order; both may be empty.
    void begin(const issue::IssuedOperation& issued, const Timed& timed);
    void copy(device::Direction direction, std::span<const device::Copy> copies);
    void end(const issue::IssuedOperation& issued, const Done& done, const Timed& timed);

    // Blocks until the engine's ticket is done; 0: at once. Throws CudaError for what failed before it.
    void wait_for_ticket(schedule::Engine engine, issue::Ticket ticket) const;

    // Blocks until all that was enqueued has run and has been reported. Throws CudaError for what failed meanwhile.
    void wait_idle(const Done& done, const Timed& timed);

    // Since the start, as far as reported; complete after wait_idle().
    double phase_seconds(schedule::Phase phase) const { return phase_seconds_[static_cast<int>(phase)]; }
    CopyTotals copied(schedule::Engine engine) const { return copied_[static_cast<int>(engine)]; }
    double exposed_copy_seconds() const { return exposed_seconds_; }

  private:
    static constexpr int kStreams = 3;                 // compute, host-to-device, device-to-host
    static constexpr std::size_t kTicketRing = 2048;   // events of an engine's last operations
    static constexpr std::size_t kMostPending = 1024;  // below the ring, so that no pending operation's event is reused

    enum class Mark : std::uint8_t { kOperation, kPhase, kExposed };

    // Something to report once `end` (or, without time stamps, the operation's ticket) is done.
    struct Pending {
        Mark mark = Mark::kOperation;
        schedule::Operation operation;
        issue::Ticket ticket = 0;
        std::int32_t begin = -1, end = -1;  // time stamps, -1: none
        issue::Movement moved;
    };

    const device::Stream& stream(schedule::Engine engine) const;
    cudaEvent_t ticket_event(int engine, issue::Ticket ticket) const;
    void wait_for(const issue::IssuedOperation& issued);
    void mark_phase(schedule::Phase phase);
    void delay_at_random(schedule::Engine engine);
    std::int32_t stamp(const device::Stream& stream);  // records a time stamp from the pool
    double seconds_of(std::int32_t stamp);
    void push(const Pending& pending);
    bool is_done(const Pending& pending) const;
    void report(const Pending& pending, const Done& done, const Timed& timed);
    void report_done(const Done& done, const Timed& timed);
    void release(std::int32_t stamp);

    const schedule::Plan& plan_;
    device::Stream compute_;
    device::TransferEngine transfers_;
    std::array<std::vector<device::Event>, kStreams> tickets_;
    std::array<issue::Ticket, kStreams> issued_{};
    std::vector<device::Event> stamps_;
    std::vector<std::int32_t> free_stamps_;
    device::Event base_{device::Timing::kOn};  // time stamps are read relative to it, ...
    double base_seconds_ = 0.0;                // ... which lies here
    std::deque<Pending> pending_;
    std::int32_t operation_begin_ = -1;
    std::optional<schedule::Phase> phase_;
    std::int32_t phase_begin_ = -1;
    std::array<double, schedule::kPhases> phase_seconds_{};
    std::array<CopyTotals, schedule::kEngines> copied_{};
    double exposed_seconds_ = 0.0;
    cudaError_t (*wait_for_event_)(cudaEvent_t);
    bool stressed_;
    std::mt19937_64 random_;
};

}  // namespace oomb::trainer
