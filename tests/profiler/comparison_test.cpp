#include "profiler/analysis/comparison.hpp"

#include <doctest/doctest.h>

#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

using schedule::Kind, schedule::OperationId;

OperationId operation(Kind kind, std::uint32_t part) {
    OperationId id;
    id.kind = kind;
    id.part = part;
    return id;
}

// Two steps of: attention 0 (two kernels), fetch 0 (a batch), release 0 (nothing); the second step is slower, and its
// calls follow in number.
std::vector<Record> two_steps() {
    std::vector<Record> records;
    std::uint32_t call = 100;
    for (std::int64_t step = 0; step < 2; ++step) {
        const std::int64_t at = 10'000 * (step + 1);
        records.push_back(OperationMark{call, pack(operation(Kind::kAttention, 0))});
        records.push_back(Kernel{.begin_ns = at, .end_ns = at + 1'000, .correlation = call++});
        records.push_back(OperationMark{call++, pack(operation(Kind::kAttention, 0))});  // an event: no work
        records.push_back(OperationMark{call, pack(operation(Kind::kAttention, 0))});
        records.push_back(Kernel{.begin_ns = at + 1'100, .end_ns = at + 2'000 + 50 * step, .correlation = call++});
        records.push_back(OperationMark{call, pack(operation(Kind::kFetch, 0))});
        records.push_back(Copy{.begin_ns = at + 300, .end_ns = at + 900, .correlation = call++, .bytes = 77});
        records.push_back(OperationMark{call++, pack(operation(Kind::kRelease, 0))});
    }
    return records;
}

trace::TraceRecord traced(std::int64_t step, Kind kind, std::int64_t duration_ns, std::int64_t bytes = 0) {
    return {.step = step, .id = operation(kind, 0), .begin_ns = 5, .end_ns = 5 + duration_ns, .bytes = bytes};
}

}  // namespace

TEST_CASE("each time of an operation is held against its own, step by step") {
    const Comparison found =
        compare(profile_of(two_steps()),
                {traced(1, Kind::kAttention, 2'010), traced(1, Kind::kFetch, 605, 77), traced(1, Kind::kRelease, 1),
                 traced(2, Kind::kFetch, 605, 77), traced(2, Kind::kAttention, 2'300)},
                2);
    REQUIRE(found.kinds.size() == 2);
    CHECK(found.kinds[0].kind == Kind::kFetch);
    CHECK(found.kinds[0].pair == TimePair{2, 1'210, 1'200, 154, 154});
    CHECK(found.kinds[1].kind == Kind::kAttention);
    CHECK(found.kinds[1].pair == TimePair{2, 4'310, 4'050, 0, 0});
    CHECK(found.total == TimePair{4, 5'520, 5'250, 154, 154});
    CHECK(found.only_in_trace == 1);
    CHECK(found.only_in_profile == 0);
    REQUIRE(found.differ.size() == 2);
    CHECK(found.differ[0].step == 2);
    CHECK(found.differ[0].pair == TimePair{1, 2'300, 2'050, 0, 0});
}

TEST_CASE("what only one of them has is counted") {
    const Comparison found =
        compare(profile_of(two_steps()), {traced(1, Kind::kAttention, 2'000), traced(1, Kind::kRope, 9)}, 9);
    CHECK(found.total.operations == 1);
    CHECK(found.only_in_trace == 1);
    CHECK(found.only_in_profile == 3);
    CHECK(compare(profile_of(two_steps()), {traced(1, Kind::kRope, 9)}, 9).total.operations == 0);
}

}  // namespace oomb::profiler
