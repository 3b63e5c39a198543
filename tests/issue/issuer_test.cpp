// Issuing whole steps with no device behind: frames and tables are those of the plan, no more and no fewer.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "runtime/issue/issuer.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using issue::IssuedOperation;
using issue::Issuer;
using schedule::Plan;

class NullSink : public issue::IssuedSink {
  public:
    void take(IssuedOperation operation) override {
        ++operations;
        CHECK(operation.number == operations);
        CHECK(operation.ticket == ++tickets[static_cast<int>(operation.operation.engine)]);
        CHECK(operation.waits[static_cast<int>(operation.operation.engine)] == 0);
        CHECK(operation.grants.size() == operation.operation.requests.size());
        for (int engine = 0; engine < schedule::kEngines; ++engine) {
            CHECK(operation.waits[engine] <= tickets[engine]);
        }
    }
    std::uint64_t operations = 0;
    issue::Tickets tickets{};
};

void check_frames(const Plan& plan, const Issuer& issuer) {
    for (int tier = 0; tier < kTiers; ++tier) {
        for (int page_class = 0; page_class < kPageClasses; ++page_class) {
            const auto which = static_cast<PageClass>(page_class);
            const auto* pool = plan.pool(static_cast<Tier>(tier), which);
            CAPTURE(name_of(static_cast<Tier>(tier)));
            CAPTURE(name_of(which));
            CHECK(issuer.residency(which).pool(static_cast<Tier>(tier)).most_in_use() ==
                  (pool == nullptr ? 0 : pool->frames));
        }
    }
}

void check_nothing_left(const Issuer& issuer) {
    for (int page_class = 0; page_class < kPageClasses; ++page_class) {
        const auto& residency = issuer.residency(static_cast<PageClass>(page_class));
        CHECK(residency.alive_pages() == 0);
        CHECK(residency.pool(Tier::kHbm).in_use() == 0);
        CHECK(residency.pool(Tier::kHost).in_use() == 0);
    }
}

TEST_CASE("a sequence as long as planned uses every frame of the plan; tables have the planned bytes") {
    RandomSteps random(77, {.layers = 7, .chunks = 9, .pages_per_chunk = 8});
    for (int i = 0; i < 300; ++i) {
        const RandomStep step = random.next();
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        NullSink sink;
        Issuer issuer(plan, sink);
        generate_step(step.model, step.run, issuer, random.between(1, 2));
        check_frames(plan, issuer);
        check_nothing_left(issuer);
        CHECK(issuer.issued() == sink.operations);
        CHECK(issuer.table_bytes() == plan.page_table_bytes);
    }
}

TEST_CASE("shorter sequences fit into the plan of the longest") {
    RandomSteps random(78);
    for (int i = 0; i < 200; ++i) {
        RandomStep step = random.next();
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        NullSink sink;
        Issuer issuer(plan, sink);
        for (int sequence = 0; sequence < 3; ++sequence) {
            step.run.context_tokens = random.between(1, plan.run.context_tokens);
            CAPTURE(step.run.context_tokens);
            generate_step(step.model, step.run, issuer);
            check_nothing_left(issuer);
        }
        CHECK(issuer.table_bytes() == plan.page_table_bytes);
    }
}

// Counts what crosses between the tiers.
class TrafficSink : public issue::IssuedSink {
  public:
    void take(IssuedOperation operation) override {
        for (const auto& grant : operation.grants) {
            to_hbm[static_cast<int>(grant.page_class)] += static_cast<std::int64_t>(grant.to_hbm.size());
            to_host[static_cast<int>(grant.page_class)] += static_cast<std::int64_t>(grant.to_host.size());
        }
    }
    std::int64_t to_hbm[kPageClasses] = {}, to_host[kPageClasses] = {};
};

TEST_CASE("K/V go to the host once; what stays in HBM does not travel") {
    RandomSteps random(79);
    for (int i = 0; i < 100; ++i) {
        const RandomStep step = random.next();
        const Plan plan = schedule::make_plan(step.model, step.run);
        TrafficSink sink;
        Issuer issuer(plan, sink);
        generate_step(step.model, step.run, issuer);
        const std::int64_t pages = schedule::StepShape(step.model, step.run).total_pages();
        CHECK(sink.to_host[static_cast<int>(PageClass::kKv)] == pages - plan.resident_pages);
        if (plan.resident_pages == pages) {
            CHECK(sink.to_hbm[static_cast<int>(PageClass::kKv)] == 0);
            CHECK(sink.to_hbm[static_cast<int>(PageClass::kKvGradient)] == 0);
            CHECK(sink.to_host[static_cast<int>(PageClass::kKvGradient)] == 0);
        }
    }
}

TEST_CASE("a use of pages that are not in HBM is refused") {
    RandomSteps random(80);
    RandomStep step = random.next();
    step.run.offload = Offload::kHost;
    step.run.hbm_pages.mode = HbmPages::Mode::kRing;
    step.run.keep = Keep::kNone;
    step.run.page_tokens = 4;
    step.run.chunk_tokens = step.run.window_tokens = 4;
    step.run.context_tokens = 40;
    const Plan plan = schedule::make_plan(step.model, step.run);
    NullSink sink;
    Issuer issuer(plan, sink);
    const auto no_fetches = [&] {
        for (const auto& operation : operations_of(step.model, step.run)) {
            if (operation.id.kind != schedule::Kind::kFetch) {
                issuer.take(operation);
            }
        }
    };
    CHECK_THROWS_WITH_AS(no_fetches(), doctest::Contains("its pages are not in HBM"), InternalError);
}

}  // namespace
}  // namespace oomb::testing
