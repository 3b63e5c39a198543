// One contract for every way of running the queues: all operations once, each engine in order, each after its waits.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <random>

#include "runtime/core/error.hpp"
#include "trainer/executor/engine_queues.hpp"

namespace oomb::testing {
namespace {

using issue::IssuedOperation;
using issue::Ticket;
using issue::Tickets;
using schedule::Engine;
using schedule::kEngines;
using trainer::CarryOut;
using trainer::EngineQueues;

using MakeQueues = std::function<std::unique_ptr<EngineQueues>(CarryOut)>;

std::vector<std::pair<const char*, MakeQueues>> all_queues() {
    return {{"in order", trainer::make_in_order_queues},
            {"shuffled", [](CarryOut run) { return trainer::make_shuffled_queues(std::move(run), 1, 10); }},
            {"shuffled, nothing held back",
             [](CarryOut run) { return trainer::make_shuffled_queues(std::move(run), 2, 0); }},
            {"threads", trainer::make_threaded_queues}};
}

// Operations with waits for earlier ones only, as the issuer makes them.
std::vector<IssuedOperation> random_operations(std::uint64_t seed, int count) {
    std::mt19937_64 random(seed);
    std::vector<IssuedOperation> operations;
    Tickets issued{};
    for (int i = 0; i < count; ++i) {
        IssuedOperation operation;
        const auto engine = random() % kEngines;
        operation.operation.engine = static_cast<Engine>(engine);
        operation.number = static_cast<std::uint64_t>(i) + 1;
        for (std::size_t other = 0; other < kEngines; ++other) {
            const bool waits = other != engine && issued[other] > 0 && random() % 3 == 0;
            operation.waits[other] = waits ? 1 + random() % issued[other] : 0;
        }
        operation.ticket = ++issued[engine];
        operations.push_back(operation);
    }
    return operations;
}

TEST_CASE("all operations run once, in their engine's order, after their waits") {
    for (const auto& [name, make] : all_queues()) {
        CAPTURE(name);
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
            std::mutex mutex;
            Tickets done{};
            std::size_t violations = 0, runs = 0;
            const auto queues = make([&](const IssuedOperation& operation) {
                const std::lock_guard lock(mutex);
                for (int engine = 0; engine < kEngines; ++engine) {
                    violations += operation.waits[engine] > done[engine] ? 1 : 0;
                }
                Ticket& mine = done[static_cast<int>(operation.operation.engine)];
                violations += operation.ticket == mine + 1 ? 0 : 1;
                mine = operation.ticket;
                ++runs;
            });
            for (const IssuedOperation& operation : random_operations(seed, 200)) {
                queues->take(operation);
            }
            queues->wait_idle();
            CHECK(runs == 200);
            CHECK(violations == 0);
        }
    }
}

TEST_CASE("an operation's exception arrives, at the latest from wait_idle") {
    for (const auto& [name, make] : all_queues()) {
        CAPTURE(name);
        const auto queues = make([](const IssuedOperation& operation) {
            if (operation.number == 20) {
                throw NumericError("twenty");
            }
        });
        const auto run = [&] {
            for (const IssuedOperation& operation : random_operations(3, 100)) {
                queues->take(operation);
            }
            queues->wait_idle();
        };
        CHECK_THROWS_WITH_AS(run(), "twenty", NumericError);
    }
}

TEST_CASE("waiting for a ticket runs all up to it, whatever else is queued") {
    for (const auto& [name, make] : all_queues()) {
        CAPTURE(name);
        std::array<std::atomic<Ticket>, kEngines> done{};
        const auto queues = make([&](const IssuedOperation& operation) {
            done[static_cast<int>(operation.operation.engine)] = operation.ticket;
        });
        for (const IssuedOperation& operation : random_operations(5, 300)) {
            const auto engine = static_cast<int>(operation.operation.engine);
            queues->take(operation);
            if (operation.number % 7 == 0) {
                queues->wait_for(operation.operation.engine, operation.ticket);
                CHECK(done[engine] == operation.ticket);
            }
        }
        queues->wait_idle();
    }
}

TEST_CASE("an exception arrives from waiting for a later ticket, and nothing queued runs after it") {
    for (const auto& [name, make] : all_queues()) {
        CAPTURE(name);
        std::atomic<std::uint64_t> last = 0;
        const auto queues = make([&](const IssuedOperation& operation) {
            if (operation.number == 2) {
                throw NumericError("two");
            }
            last = operation.number;
        });
        const auto run = [&] {
            for (std::uint64_t number = 1; number <= 3; ++number) {
                IssuedOperation operation;
                operation.number = operation.ticket = number;
                queues->take(operation);
            }
            queues->wait_for(Engine::kCompute, 3);
        };
        CHECK_THROWS_WITH_AS(run(), "two", NumericError);
        CHECK(last == 1);
    }
}

TEST_CASE("shuffling takes another order, another seed another one, the same seed the same") {
    const auto order_of = [](std::uint64_t seed) {
        std::vector<std::uint64_t> order;
        const auto queues = trainer::make_shuffled_queues(
            [&](const IssuedOperation& operation) { order.push_back(operation.number); }, seed, 32);
        for (const IssuedOperation& operation : random_operations(4, 100)) {
            queues->take(operation);
        }
        queues->wait_idle();
        return order;
    };
    CHECK_FALSE(std::is_sorted(order_of(1).begin(), order_of(1).end()));
    CHECK(order_of(1) == order_of(1));
    CHECK(order_of(1) != order_of(2));
}

TEST_CASE("operations that wait for one another are reported") {
    const auto queues = trainer::make_shuffled_queues([](const IssuedOperation&) {}, 1, 10);
    IssuedOperation operation;
    operation.number = operation.ticket = 1;
    operation.waits[static_cast<int>(Engine::kHostToDevice)] = 1;
    queues->take(operation);
    CHECK_THROWS_WITH_AS(queues->wait_idle(), doctest::Contains("wait for one another"), InternalError);
}

TEST_CASE("threads end at once when nothing is queued, many times over") {
    for (int i = 0; i < 200; ++i) {
        trainer::make_threaded_queues([](const IssuedOperation&) {});
    }
}

}  // namespace
}  // namespace oomb::testing
