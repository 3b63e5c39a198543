// Issuing whole steps with no device behind: frames and tables are those of the plan, no more and no fewer.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "runtime/issue/issuer.hpp"
#include "tests/issue/random_lists.hpp"
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

TEST_CASE("sliding windows: every frame of the plan is used, no pool passes it in a shorter sequence") {
    RandomSteps random(78, {.layers = 7, .chunks = 9, .pages_per_chunk = 8, .local = true});
    for (int i = 0; i < 600; ++i) {
        RandomStep step = random.next();
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        NullSink sink;
        Issuer issuer(plan, sink);
        generate_step(step.model, step.run, issuer);
        check_frames(plan, issuer);
        check_nothing_left(issuer);
        step.run = plan.run;
        step.run.context_tokens = random.between(1, step.run.context_tokens);
        CAPTURE(step.run.context_tokens);
        NullSink sink_of_shorter;
        Issuer shorter(plan, sink_of_shorter);
        CHECK_NOTHROW(generate_step(step.model, step.run, shorter));
        check_nothing_left(shorter);
    }
}

// K/V pages are all born in HBM, so their pools fill up whatever lists say; gradient pages may stay below their bound.
TEST_CASE("with lists no pool passes its plan, and those of K/V and kept pages are used up") {
    RandomSteps random(81, {.layers = 4, .chunks = 9, .pages_per_chunk = 6, .top_k = true});
    int selecting = 0, below = 0;
    for (int i = 0; i < 300; ++i) {
        const RandomStep step = random.next();
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        NullSink sink;
        RandomLists lists(plan, i);
        Issuer issuer(plan, sink, &lists);
        generate_step(step.model, step.run, issuer, random.between(1, 2));
        const bool selects = schedule::StepShape(step.model, step.run).selects();
        for (const auto& pool : plan.pools) {
            const std::int64_t used = issuer.residency(pool.page_class).pool(pool.tier).most_in_use();
            CHECK(used <= pool.frames);
            const bool exact = !selects || pool.page_class != PageClass::kKvGradient;
            CHECK((used == pool.frames || !exact));
            below += used < pool.frames ? 1 : 0;
        }
        check_nothing_left(issuer);
        CHECK(issuer.table_bytes() == plan.page_table_bytes);
        selecting += selects ? 1 : 0;
    }
    CHECK(selecting > 60);
    CHECK(below > 0);
}

// Two layers, chunks of two pages, two pages to a list, one query page to a group.
RandomStep listed_step() {
    RandomStep step = RandomSteps(80).next();
    step.model.layers = 2;
    step.run = {};
    step.run.offload = Offload::kHost;
    step.run.hbm_pages.mode = HbmPages::Mode::kRing;
    step.run.page_tokens = 4;
    step.run.chunk_tokens = 8;
    step.run.window_tokens = 12;
    step.run.context_tokens = 40;
    step.run.attention = AttentionMode::kTopK;
    step.run.top_k = 2;
    return step;
}

// Keeps what carries lists.
class ListedSink : public issue::IssuedSink {
  public:
    void take(IssuedOperation issued) override {
        if (issued.lists != nullptr && !issued.lists->lists.empty()) {
            operations.push_back(std::move(issued));
        }
    }
    std::vector<IssuedOperation> operations;
};

TEST_CASE("an issued attention over lists carries those of its query pages, and requests what they name") {
    const RandomStep step = listed_step();
    const Plan plan = schedule::make_plan(step.model, step.run);
    ListedSink sink;
    RandomLists lists(plan, 5);
    Issuer issuer(plan, sink, &lists);
    generate_step(step.model, step.run, issuer, 2);
    REQUIRE(sink.operations.size() > 30);
    for (const IssuedOperation& issued : sink.operations) {
        const auto& operation = issued.operation;
        const std::int64_t page = operation.first_row / 4, count = (operation.rows + 3) / 4;
        CHECK(issued.lists->lists == lists.page_lists(operation.id.layer, page, count, 1));
        CHECK(std::is_sorted(issued.lists->pages.begin(), issued.lists->pages.end()));
        for (std::size_t i = 0; i < issued.grants.size(); ++i) {
            const PageSet& pages = operation.requests[i].pages;
            CHECK(pages.list == issued.lists->pages.data());
            CHECK(pages.count == std::ssize(issued.lists->pages));
            CHECK(issued.grants[i].frames.size() == issued.lists->pages.size());
        }
        for (const std::int32_t named : issued.lists->lists) {
            CHECK(std::binary_search(issued.lists->pages.begin(), issued.lists->pages.end(), named));
        }
    }
}

class FixedLists : public issue::PageListSource {
  public:
    std::vector<std::int32_t> page_lists(std::int64_t, std::int64_t, std::int64_t, issue::Ticket) override {
        return lists;
    }
    std::vector<std::int32_t> lists;
};

TEST_CASE("lists that can't be are refused, as is a schedule with lists where nobody makes any") {
    const RandomStep step = listed_step();
    const Plan plan = schedule::make_plan(step.model, step.run);
    NullSink sink;
    Issuer without(plan, sink);
    CHECK_THROWS_WITH_AS(generate_step(step.model, step.run, without), doctest::Contains("nobody makes any"),
                         InternalError);
    const std::pair<std::vector<std::int32_t>, const char*> cases[] = {
        {{0, -1}, "found page -1 after 0"},
        {{-1, 0}, "found page -1 after -1"},
        {{1, 1}, "found page 1 after 1"},
        {{2, 4}, "found page 4 after 2, allowed are ascending ones below 4"},
        {{0}, "1 entries for 1 query pages of 2"}};
    for (const auto& [found, message] : cases) {
        NullSink another;
        FixedLists lists;
        lists.lists = found;
        Issuer issuer(plan, another, &lists);
        CHECK_THROWS_WITH_AS(generate_step(step.model, step.run, issuer), doctest::Contains(message), InternalError);
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
