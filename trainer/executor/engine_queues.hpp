#pragma once
// Order in which a host-side backend runs issued operations: each engine first in first out, each operation after its
// waits. All three ways must give the same bits; the shuffled one exists to prove it.

#include <functional>
#include <memory>

#include "runtime/issue/issued_operation.hpp"

namespace oomb::trainer {

using CarryOut = std::function<void(const issue::IssuedOperation&)>;

class EngineQueues {
  public:
    virtual ~EngineQueues() = default;
    virtual void take(issue::IssuedOperation operation) = 0;
    // Returns when all taken operations have run; throws the first exception of one (the rest is then dropped).
    virtual void wait_idle() = 0;
    // Returns when this ticket, which has been taken, has run; throws what one before it threw.
    virtual void wait_for(schedule::Engine engine, issue::Ticket ticket) = 0;
};

// Runs each operation at once: program order satisfies every wait.
std::unique_ptr<EngineQueues> make_in_order_queues(CarryOut carry_out);
// Holds back up to `depth` operations and picks among the engines' runnable heads at random.
std::unique_ptr<EngineQueues> make_shuffled_queues(CarryOut carry_out, std::uint64_t seed, std::size_t depth);
// One thread per engine.
std::unique_ptr<EngineQueues> make_threaded_queues(CarryOut carry_out);

}  // namespace oomb::trainer
