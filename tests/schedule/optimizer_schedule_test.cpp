// Shards of the optimizer's states: each on the host comes once and goes back once, the first ones beside the backward
// of the step's last chunk.
#include "runtime/schedule/optimizer_schedule.hpp"

#include <doctest/doctest.h>

#include <map>

#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::Engine;
using schedule::Kind;
using schedule::Operation;
using schedule::Phase;
using schedule::RegionName;

// Where in the list the operations of a kind are, by shard.
std::map<std::int64_t, std::size_t> places_of(const std::vector<Operation>& operations, Kind kind) {
    std::map<std::int64_t, std::size_t> places;
    for (std::size_t i = 0; i < operations.size(); ++i) {
        if (operations[i].id.kind == kind) {
            const bool first = places.emplace(operations[i].id.part, i).second;
            CHECK(first);
        }
    }
    return places;
}

bool in_last_backward(const Operation& operation, std::int64_t sequences) {
    return operation.id.phase == Phase::kBackward && operation.id.chunk == 0 && operation.id.sequence == sequences - 1;
}

// Layers of the last chunk's backward that have ended before `place`.
std::int64_t layers_done(const std::vector<Operation>& operations, std::size_t place, std::int64_t sequences) {
    return std::count_if(
        operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(place), [&](const Operation& operation) {
            return in_last_backward(operation, sequences) && operation.id.kind == Kind::kInputNormBackward;
        });
}

std::int32_t ring_slot_of(const Operation& operation) {
    for (const auto& use : operation.regions) {
        if (use.region == RegionName::kOptimizerShard) {
            CHECK_FALSE(use.begins);
            CHECK_FALSE(use.ends);
            return use.slot;
        }
    }
    FAIL("no ring");
    return -1;
}

void check_step(const RandomStep& step, std::int64_t sequences) {
    CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
    CAPTURE(sequences);
    const auto operations = operations_of(step.model, step.run, sequences);
    const auto shards = schedule::optimizer_shards(schedule::StepShape(step.model, step.run));
    const auto fetches = places_of(operations, Kind::kFetchState), updates = places_of(operations, Kind::kOptimizer),
               stores = places_of(operations, Kind::kStoreState);
    const auto norm = places_of(operations, Kind::kGradientNorm).at(0);
    REQUIRE(fetches.size() == static_cast<std::size_t>(shards.on_host()));
    REQUIRE(stores.size() == fetches.size());
    REQUIRE(updates.size() == static_cast<std::size_t>(shards.count));
    std::map<std::int32_t, std::size_t> free_since;  // slot -> place of the store that emptied it
    for (std::int64_t i = 0; i < shards.on_host(); ++i) {
        const std::int64_t shard = shards.resident + i;
        const std::size_t fetch = fetches.at(shard);
        CHECK(operations[fetch].engine == Engine::kHostToDevice);
        CHECK(fetch < updates.at(shard));
        CHECK(updates.at(shard) < stores.at(shard));
        const std::int32_t slot = ring_slot_of(operations[fetch]);
        CHECK(ring_slot_of(operations[updates.at(shard)]) == slot);
        CHECK(ring_slot_of(operations[stores.at(shard)]) == slot);
        if (i < schedule::kMostShardSlots) {
            CHECK(free_since.count(slot) == 0);
            // After the copies of one more layer each, and before the chunk ends.
            CHECK(fetch < norm);
            CHECK(layers_done(operations, fetch, sequences) == std::min(i + 1, step.model.layers));
        } else {
            CHECK(norm < fetch);
            CHECK(free_since.at(slot) < fetch);
        }
        free_since[slot] = stores.at(shard);
        const auto waits = fetches.find(shard - 1 + shards.ring_slots());  // for the store before this one
        const bool meets = i > 0 && waits != fetches.end() && waits->second > stores.at(shard);
        CHECK(shards.store_meets_fetch(shard) == meets);
    }
}

TEST_CASE("random steps: the ring is filled in the last chunk, and each slot emptied before it is filled again") {
    RandomSteps random(88);
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        if (step.run.optimizer) {
            check_step(step, random.between(1, 3));
        }
    }
}

}  // namespace
}  // namespace oomb::testing
