#pragma once
// Watches the bytes that operations really touch, and says when two of them were not ordered by waits.
//
// Independent of how the waits were derived: it sees addresses, not declarations. Whatever order an execution happened
// to take, an unordered pair with at least one write is reported.

#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::trainer {

class HazardChecker {
  public:
    explicit HazardChecker(const schedule::Plan& plan);

    // In program order, before the operation may run.
    void issued(const issue::IssuedOperation& operation);
    // While the operation runs; thread-safe. Throws InternalError naming both operations and the bytes.
    void touched(const issue::IssuedOperation& operation, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
                 schedule::Access access);

  private:
    // Bytes are watched in blocks: no two buffers share one as long as their sizes are multiples of it.
    static constexpr std::int64_t kBlock_bytes = 64;
    struct Block {
        std::uint64_t writer = 0;  // operation number, 0 = nobody
        // Since the last write, the last of each engine: the ones before it are done before it starts.
        std::array<std::uint64_t, schedule::kEngines> readers{};
    };
    struct Issued {
        issue::Tickets before{};  // tickets done before it starts
        schedule::Engine engine = schedule::Engine::kCompute;
        issue::Ticket ticket = 0;
        schedule::OperationId id;
    };

    bool ordered(std::uint64_t first, std::uint64_t second) const;
    void check(std::uint64_t earlier, std::uint64_t now, Tier tier, std::int64_t offset_bytes) const;

    std::mutex mutex_;
    std::vector<Issued> operations_;                                        // by number - 1
    std::array<std::vector<std::uint64_t>, schedule::kEngines> by_ticket_;  // operation number by ticket - 1
    std::array<std::vector<Block>, kTiers> blocks_;
};

}  // namespace oomb::trainer
