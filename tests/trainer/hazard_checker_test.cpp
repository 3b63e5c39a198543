// The checker by itself: pairs of accesses with and without an order.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "trainer/executor/hazard_checker.hpp"

namespace oomb::testing {
namespace {

using issue::IssuedOperation;
using issue::Tickets;
using schedule::Access;
using schedule::Engine;

constexpr auto kCompute = Engine::kCompute, kIn = Engine::kHostToDevice, kOut = Engine::kDeviceToHost;

class CheckerCase {
  public:
    CheckerCase() : checker_(plan()) {}

    IssuedOperation issue(Engine engine, const std::vector<std::pair<Engine, issue::Ticket>>& waits = {}) {
        IssuedOperation operation;
        operation.operation.engine = engine;
        operation.number = ++number_;
        operation.ticket = ++tickets_[static_cast<int>(engine)];
        for (const auto& [other, ticket] : waits) {
            operation.waits[static_cast<int>(other)] = ticket;
        }
        checker_.issued(operation);
        return operation;
    }
    void issue_again(const IssuedOperation& operation) { checker_.issued(operation); }
    void touch(const IssuedOperation& operation, std::int64_t offset, std::int64_t bytes, Access access,
               Tier tier = Tier::kHbm) {
        checker_.touched(operation, tier, offset, bytes, access);
    }
    bool reports(const IssuedOperation& operation, std::int64_t offset, std::int64_t bytes, Access access) {
        try {
            touch(operation, offset, bytes, access);
        } catch (const InternalError&) {
            return true;
        }
        return false;
    }

  private:
    static const schedule::Plan& plan() {
        static const schedule::Plan kPlan = [] {
            schedule::Plan plan;
            plan.arena_bytes[0] = plan.arena_bytes[1] = 1024;
            return plan;
        }();
        return kPlan;
    }
    trainer::HazardChecker checker_;
    std::uint64_t number_ = 0;
    Tickets tickets_{};
};

TEST_CASE("two engines on the same bytes without a wait, one of them writing") {
    const std::pair<Access, Access> cases[] = {
        {Access::kWrite, Access::kRead}, {Access::kRead, Access::kWrite}, {Access::kWrite, Access::kWrite}};
    for (const auto& [first, second] : cases) {
        CheckerCase unordered;
        const auto a = unordered.issue(kIn), b = unordered.issue(kCompute);
        unordered.touch(a, 0, 64, first);
        CHECK(unordered.reports(b, 0, 64, second));

        CheckerCase reversed;  // the later operation came first: the earlier one finds it
        const auto c = reversed.issue(kIn), d = reversed.issue(kCompute);
        reversed.touch(d, 0, 64, second);
        CHECK(reversed.reports(c, 0, 64, first));

        CheckerCase ordered;
        const auto e = ordered.issue(kIn), f = ordered.issue(kCompute, {{kIn, 1}});
        ordered.touch(e, 0, 64, first);
        CHECK_FALSE(ordered.reports(f, 0, 64, second));
    }
}

TEST_CASE("readers beside one another, neighbouring bytes and other tiers are no conflict") {
    CheckerCase checker;
    const auto a = checker.issue(kIn), b = checker.issue(kCompute);
    checker.touch(a, 0, 64, Access::kRead);
    checker.touch(b, 0, 64, Access::kRead);
    checker.touch(a, 64, 64, Access::kWrite);
    checker.touch(b, 128, 64, Access::kWrite);
    CHECK_NOTHROW(checker.touch(b, 64, 64, Access::kWrite, Tier::kHost));
    CHECK(checker.reports(b, 0, 65, Access::kRead));  // one byte into the neighbour
}

TEST_CASE("order through a third engine and through an engine's own queue counts") {
    CheckerCase checker;
    const auto a = checker.issue(kIn);
    const auto b = checker.issue(kOut, {{kIn, 1}});
    const auto c = checker.issue(kCompute, {{kOut, 1}});
    const auto d = checker.issue(kCompute);
    const auto e = checker.issue(kIn);  // waits for nobody
    checker.touch(a, 0, 64, Access::kWrite);
    checker.touch(b, 64, 64, Access::kWrite);
    CHECK_FALSE(checker.reports(d, 0, 128, Access::kWrite));
    CHECK(checker.reports(e, 0, 64, Access::kRead));
    CHECK_FALSE(checker.reports(c, 512, 64, Access::kWrite));
}

TEST_CASE("the message names both operations, the tier and the byte") {
    CheckerCase checker;
    const auto a = checker.issue(kIn), b = checker.issue(kCompute);
    checker.touch(a, 256, 64, Access::kWrite);
    CHECK_THROWS_WITH_AS(checker.touch(b, 0, 512, Access::kRead), doctest::Contains("hbm byte 256"), InternalError);
    CHECK_THROWS_WITH_AS(checker.issue_again(b), doctest::Contains("out of order"), InternalError);
}

}  // namespace
}  // namespace oomb::testing
