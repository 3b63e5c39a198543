#include "trainer/executor/hazard_checker.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"

namespace oomb::trainer {

using issue::IssuedOperation;
using schedule::Access;
using schedule::kEngines;

HazardChecker::HazardChecker(const schedule::Plan& plan) {
    for (int tier = 0; tier < kTiers; ++tier) {
        blocks_[tier].resize(schedule::divide_up(plan.arena_bytes[tier], kBlock_bytes));
    }
}

void HazardChecker::issued(const IssuedOperation& operation) {
    const std::lock_guard lock(mutex_);
    const int self = static_cast<int>(operation.operation.engine);
    Issued entry{{}, operation.operation.engine, operation.ticket, operation.operation.id};
    const auto follow = [&](int engine, issue::Ticket ticket) {
        if (ticket == 0) {
            return;
        }
        const Issued& other = operations_[by_ticket_[engine][ticket - 1] - 1];
        for (int e = 0; e < kEngines; ++e) {
            entry.before[e] = std::max(entry.before[e], other.before[e]);
        }
        entry.before[engine] = std::max(entry.before[engine], ticket);
    };
    follow(self, operation.ticket - 1);
    for (int engine = 0; engine < kEngines; ++engine) {
        follow(engine, operation.waits[engine]);
    }
    by_ticket_[self].push_back(operation.number);
    operations_.push_back(entry);
    require(operations_.size() == operation.number && by_ticket_[self].size() == operation.ticket,
            "hazard checker: operation {} came out of order", operation.number);
}

bool HazardChecker::ordered(std::uint64_t first, std::uint64_t second) const {
    const Issued& a = operations_[first - 1];
    return operations_[second - 1].before[static_cast<int>(a.engine)] >= a.ticket;
}

void HazardChecker::check(std::uint64_t earlier, std::uint64_t now, Tier tier, std::int64_t offset_bytes) const {
    if (earlier == 0 || earlier == now || ordered(earlier, now)) {
        return;
    }
    fail<InternalError>("hazard: [{}] and [{}] both touch {} byte {}, and neither waits for the other",
                        to_text(operations_[earlier - 1].id), to_text(operations_[now - 1].id), name_of(tier),
                        offset_bytes);
}

void HazardChecker::touched(const IssuedOperation& operation, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
                            Access access) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t now = operation.number;
    const std::int64_t end = schedule::divide_up(offset_bytes + bytes, kBlock_bytes);
    for (std::int64_t i = offset_bytes / kBlock_bytes; i < end; ++i) {
        Block& block = blocks_[static_cast<int>(tier)][i];
        check(block.writer, now, tier, i * kBlock_bytes);
        if (access == Access::kRead) {
            block.readers[static_cast<int>(operation.operation.engine)] = now;
            continue;
        }
        for (const std::uint64_t reader : block.readers) {
            check(reader, now, tier, i * kBlock_bytes);
        }
        block.readers = {};
        block.writer = now;
    }
}

}  // namespace oomb::trainer
