#include "runtime/issue/movement.hpp"

#include <doctest/doctest.h>

namespace oomb::testing {
namespace {

using issue::IssuedOperation;
using issue::Movement;
using issue::movement_of;
using schedule::Engine;
using schedule::Kind;

schedule::Plan plan_with_pools() {
    schedule::Plan plan;
    plan.pools = {{Tier::kHbm, PageClass::kKv, 4, {64, 64}, 0},
                  {Tier::kHbm, PageClass::kKvGradient, 4, {128, 128}, 512},
                  {Tier::kHost, PageClass::kKv, 8, {64, 64}, 0},
                  {Tier::kHost, PageClass::kKvGradient, 8, {128, 128}, 1024}};
    return plan;
}

IssuedOperation operation(Kind kind, Engine engine, schedule::Cost cost = {}) {
    IssuedOperation issued;
    issued.operation.id.kind = kind;
    issued.operation.engine = engine;
    issued.operation.cost = cost;
    return issued;
}

paging::Grant grant(PageClass page_class, std::vector<paging::PageCopy> to_hbm, std::vector<paging::PageCopy> to_host) {
    paging::Grant granted;
    granted.page_class = page_class;
    granted.to_hbm = std::move(to_hbm);
    granted.to_host = std::move(to_host);
    return granted;
}

void check(const IssuedOperation& issued, std::int64_t bytes, std::int64_t pages, std::int64_t runs) {
    const Movement moved = movement_of(issued, plan_with_pools());
    CHECK(moved.bytes == bytes);
    CHECK(moved.pages == pages);
    CHECK(moved.runs == runs);
}

}  // namespace

TEST_CASE("page copies count the pages that travel, with all planes of their class") {
    // Six pages are asked for; three of K/V and one gradient page are not in place.
    IssuedOperation fetch = operation(Kind::kFetch, Engine::kHostToDevice, schedule::CopyCost{6 * 128, 6});
    fetch.operation.requests = {{PageUse::kRead, {PageClass::kKv, 0, 4, 5}},
                                {PageUse::kRead, {PageClass::kKvGradient, 0, 6, 1}}};
    fetch.grants = {grant(PageClass::kKv, {{0, 4}, {1, 5}, {3, 7}}, {}), grant(PageClass::kKvGradient, {{2, 6}}, {})};
    fetch.grants[0].frames = {0, 1, 8, 3, 9};  // pages 4 and 5 follow one another, 7 is alone
    fetch.grants[1].frames = {2};
    check(fetch, 3 * 128 + 256, 4, 3);
    IssuedOperation back = operation(Kind::kWriteBack, Engine::kDeviceToHost, schedule::CopyCost{5 * 256, 5});
    back.operation.requests = {{PageUse::kWriteBack, {PageClass::kKvGradient, 0, 4, 3}}};
    back.grants = {grant(PageClass::kKvGradient, {}, {{0, 1}, {1, 2}})};
    back.grants[0].frames = {0, 1, -1};
    check(back, 2 * 256, 2, 1);
}

TEST_CASE("other copies are what their cost says; what stays in a tier moves nothing") {
    check(operation(Kind::kLoadTokens, Engine::kHostToDevice, schedule::CopyCost{4096, 0}), 4096, 0, 0);
    check(operation(Kind::kKeepActivation, Engine::kDeviceToHost, schedule::CopyCost{777, 1}), 777, 1, 1);
    check(operation(Kind::kKeepActivation, Engine::kCompute, schedule::CopyCost{777, 1}), 0, 0, 0);
    check(operation(Kind::kInputNorm, Engine::kCompute, schedule::ElementwiseCost{100}), 0, 0, 0);
    check(operation(Kind::kRelease, Engine::kHost), 0, 0, 0);
}

}  // namespace oomb::testing
