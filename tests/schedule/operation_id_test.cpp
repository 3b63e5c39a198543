// Ids of operations: 64 bits that hold every coordinate, and no id twice.
#include <doctest/doctest.h>

#include <set>

#include "runtime/core/error.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::Kind;
using schedule::OperationId;
using schedule::pack;
using schedule::Phase;
using schedule::unpack;

constexpr auto kLastKind = Kind::kPageRecall;

TEST_CASE("packing keeps every coordinate, up to the largest of each") {
    const OperationId largest{.sequence = 4095,
                              .phase = Phase::kOptimizer,
                              .chunk = 65535,
                              .layer = 511,
                              .kind = kLastKind,
                              .part = (1U << 19) - 1};
    CHECK(unpack(pack(largest)) == largest);
    CHECK(pack(OperationId{}) == 0);
    const std::vector<OperationId> single = {{.sequence = 4095},  {.phase = Phase::kOptimizer},
                                             {.chunk = 65535},    {.layer = 511},
                                             {.kind = kLastKind}, {.part = (1U << 19) - 1}};
    std::uint64_t all = 0;
    for (const OperationId& id : single) {
        CHECK(unpack(pack(id)) == id);
        CHECK((all & pack(id)) == 0);  // no two fields share a bit
        all |= pack(id);
    }
    std::mt19937_64 random(5);
    for (int i = 0; i < 1000; ++i) {
        const OperationId id{.sequence = static_cast<std::uint16_t>(random() % 4096),
                             .phase = static_cast<Phase>(random() % schedule::kPhases),
                             .chunk = static_cast<std::uint16_t>(random()),
                             .layer = static_cast<std::uint16_t>(random() % 512),
                             .kind = static_cast<Kind>(random() % (static_cast<std::uint64_t>(kLastKind) + 1)),
                             .part = static_cast<std::uint32_t>(random() % (1U << 19))};
        CHECK(unpack(pack(id)) == id);
    }
}

TEST_CASE("a coordinate without room is refused by its name") {
    CHECK_THROWS_WITH_AS(pack({.sequence = 4096}), doctest::Contains("sequence 4096"), InternalError);
    CHECK_THROWS_WITH_AS(pack({.layer = 512}), doctest::Contains("layer 512"), InternalError);
    CHECK_THROWS_WITH_AS(pack({.kind = static_cast<Kind>(64)}), doctest::Contains("kind 64"), InternalError);
    CHECK_THROWS_WITH_AS(pack({.part = 1U << 19}), doctest::Contains("part 524288"), InternalError);
    CHECK_THROWS_WITH_AS(pack({.phase = static_cast<Phase>(4)}), doctest::Contains("phase 4"), InternalError);
}

TEST_CASE("a plan whose operations would have no ids is refused with the flag to change") {
    ModelShape model = RandomSteps(1).next().model;
    RunConfiguration run;
    run.page_tokens = run.chunk_tokens = 1;
    run.context_tokens = 65536;
    run.window_tokens = 1 << 20;
    CHECK_NOTHROW(schedule::make_plan(model, run));
    run.context_tokens = 65537;
    CHECK_THROWS_WITH_AS(schedule::make_plan(model, run), doctest::Contains("--chunk 2 or more"), UsageError);
    run.chunk_tokens = 1 << 19;
    run.context_tokens = 1 << 20;
    run.window_tokens = 1;
    CHECK_THROWS_WITH_AS(schedule::make_plan(model, run), doctest::Contains("--window"), UsageError);
    run.chunk_tokens = run.context_tokens = run.window_tokens = 1 << 20;
    run.logit_tile_tokens = 1;
    CHECK_THROWS_WITH_AS(schedule::make_plan(model, run), doctest::Contains("--logit-tile"), UsageError);
    run.logit_tile_tokens = 2;
    CHECK_NOTHROW(schedule::make_plan(model, run));
    model.layers = 513;
    CHECK_THROWS_WITH_AS(schedule::make_plan(model, run), doctest::Contains("513 layers"), UnsupportedError);
}

TEST_CASE("no id twice within a step") {
    RandomSteps random(17);
    for (int i = 0; i < 60; ++i) {
        const RandomStep step = random.next();
        const std::int64_t sequences = random.between(1, 3);
        std::set<std::uint64_t> ids;
        const auto operations = operations_of(step.model, step.run, sequences);
        for (const auto& operation : operations) {
            const bool is_new = ids.insert(pack(operation.id)).second;
            CHECK_MESSAGE(is_new, to_text(operation.id));
        }
    }
}

}  // namespace
}  // namespace oomb::testing
