// Top-K pages in the schedule: who makes lists and when, who reads what in which groups, and what the plan reserves.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "runtime/core/error.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::AttentionCost;
using schedule::Kind;
using schedule::Operation;
using schedule::Plan;
using schedule::RegionName;
using schedule::StepShape;

RandomSteps random_steps(std::uint64_t seed) {
    return RandomSteps(seed, {.chunks = 9, .pages_per_chunk = 4, .top_k = true});
}

TEST_CASE("a chunk and layer has lists once, before anything reads them, where more than K pages lie before it") {
    RandomSteps random = random_steps(1);
    int selecting = 0;
    for (int i = 0; i < 300; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        std::map<std::pair<int, int>, int> made;
        std::map<int, std::set<int>> means;  // by layer: chunks
        for (const Operation& operation : operations_of(step.model, step.run)) {
            const auto& id = operation.id;
            const bool many = id.chunk * shape.pages_per_chunk() > step.run.top_k;
            const bool listed = !operation.requests.empty() && operation.requests[0].listed;
            const auto by =
                static_cast<int>(operation.first_row / step.run.chunk_tokens);  // of a prefetch the one before
            CHECK((!listed || made[{by, id.layer}] == 1));
            if (id.kind == Kind::kPageMeans) {
                CHECK(id.phase == schedule::Phase::kFill);
                CHECK(means[id.layer].insert(id.chunk).second);
            }
            if (id.kind == Kind::kPageScores) {
                for (int chunk = 0; chunk < id.chunk; ++chunk) {
                    CHECK(means[id.layer].contains(chunk));
                }
            }
            if (id.kind == Kind::kStoreLists) {
                CHECK(many);
                CHECK(++made[{id.chunk, id.layer}] == 1);
            }
            const bool attends = id.kind == Kind::kAttention || id.kind == Kind::kAttentionBackward;
            const bool own = attends && operation.requests[0].pages.first == shape.first_page(id.chunk);
            if (attends && step.run.attention == AttentionMode::kTopK) {
                CHECK(listed == (many && !own));
            }
        }
        const std::int64_t chunks = shape.selects() ? shape.chunks() - shape.first_listed_chunk() : 0;
        CHECK(std::ssize(made) == chunks * step.model.layers);
        selecting += shape.selects() ? 1 : 0;
    }
    CHECK(selecting > 60);
}

TEST_CASE("on CUDA attention over lists merges itself: no merge follows it") {
    RandomSteps random = random_steps(3);
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        const bool cuda = step.run.device == DeviceKind::kCuda;
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        std::int64_t in_place = 0, listed = 0;
        for (const Operation& operation : operations_of(step.model, plan.run)) {
            const auto* cost = std::get_if<AttentionCost>(&operation.cost);
            const bool over_lists = cost != nullptr && cost->listed && operation.id.kind == Kind::kAttention;
            const auto writes_sum = [](const schedule::RegionUse& use) {
                return use.region == RegionName::kOutputSum && use.access == schedule::Access::kWrite && !use.begins;
            };
            listed += over_lists ? 1 : 0;
            in_place += over_lists && std::any_of(operation.regions.begin(), operation.regions.end(), writes_sum);
            CHECK((operation.id.kind != Kind::kMerge || !cuda || !shape.has_lists(operation.id.chunk)));
        }
        CHECK(in_place == (cuda ? listed : 0));
    }
}

TEST_CASE("groups of a pass are all query pages once, each with the keys of K pages, within a window") {
    RandomSteps random = random_steps(2);
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        std::map<std::tuple<schedule::Phase, int, int>, std::int64_t> done;  // by phase, chunk, layer: rows
        for (const Operation& operation : operations_of(step.model, step.run)) {
            const auto* cost = std::get_if<AttentionCost>(&operation.cost);
            const std::int64_t first = shape.first_token(operation.id.chunk);
            if (cost == nullptr || !cost->listed) {
                continue;
            }
            std::int64_t& rows = done[{operation.id.phase, operation.id.chunk, operation.id.layer}];
            CHECK(cost->first_query == first + rows);
            rows += cost->queries;
            CHECK(cost->first_query == operation.first_row);
            CHECK(cost->queries == operation.rows);
            CHECK((cost->first_query - first) % step.run.page_tokens == 0);
            CHECK(cost->keys == step.run.top_k * step.run.page_tokens);
            const std::int64_t bound = operation.requests[0].bound;
            CHECK(bound <= shape.pages_per_window());
            CHECK(bound <= shape.first_page(operation.id.chunk));
            CHECK(bound >= std::min(shape.first_page(operation.id.chunk),
                                    step.run.top_k * schedule::divide_up(cost->queries, step.run.page_tokens)));
        }
        for (const auto& [pass, rows] : done) {
            CHECK(rows == shape.tokens_of(std::get<1>(pass)));
        }
    }
}

TEST_CASE("the plan: means and lists grow with the context, the rest of HBM does not") {
    const ModelShape model = RandomSteps(4).next().model;
    RunConfiguration run;
    run.context_tokens = 1000;
    run.chunk_tokens = 64;
    run.page_tokens = 16;
    run.window_tokens = 128;
    run.attention = AttentionMode::kTopK;
    run.top_k = 3;
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const auto bytes = [](const Plan& plan, RegionName name) { return region_of(plan.regions, name).total_bytes(); };
    const std::int64_t history_row = model.kv_width() * 4, query_pages = 4;
    for (const std::int64_t context : {1000, 4096, 1000000}) {
        run.context_tokens = context;
        const StepShape step(model, run);
        const std::int64_t history = step.first_page(step.chunks() - 1);
        const Plan plan = schedule::make_plan(model, run);
        CHECK(bytes(plan, RegionName::kPageMeans) == model.layers * schedule::aligned(history * history_row));
        CHECK(bytes(plan, RegionName::kPageScores) == schedule::aligned(query_pages * history * 4));
        CHECK(bytes(plan, RegionName::kSelectedPages) == schedule::aligned(query_pages * 3 * 4));
        CHECK(bytes(plan, RegionName::kHostPageLists) ==
              model.layers * schedule::aligned((step.pages() - query_pages) * 3 * 4));  // the first chunk has none
        RunConfiguration dense = run;
        dense.attention = AttentionMode::kDense;
        dense.top_k = 0;
        const Plan other = schedule::make_plan(model, dense);
        const std::int64_t tables = plan.page_table_bytes - other.page_table_bytes;
        CHECK(plan.peak_bytes(Tier::kHost) - other.peak_bytes(Tier::kHost) ==
              bytes(plan, RegionName::kHostPageLists) + tables);
        // Two windows of frames more in the ring, K and V planes of both classes.
        const std::int64_t spare = std::min<std::int64_t>(16, history);
        const std::int64_t ring =
            2 * spare * (step.page_plane_bytes(PageClass::kKv) + step.page_plane_bytes(PageClass::kKvGradient));
        const std::int64_t more = plan.peak_bytes(Tier::kHbm) - other.peak_bytes(Tier::kHbm) - ring;
        CHECK(more >= bytes(plan, RegionName::kPageMeans));
        CHECK(more <= bytes(plan, RegionName::kPageMeans) + bytes(plan, RegionName::kPageScores) +
                          bytes(plan, RegionName::kSelectedPages));
    }
}

TEST_CASE("what validate() refuses of top-K") {
    RunConfiguration run;
    run.context_tokens = 4096;
    run.attention = AttentionMode::kTopK;
    for (const std::int64_t pages : {-3, 0}) {
        run.top_k = pages;
        CHECK_THROWS_WITH_AS(validate(run), doctest::Contains("--attention topk needs --top-k"), UsageError);
    }
    run.top_k = 129;
    CHECK_THROWS_WITH_AS(validate(run), doctest::Contains("--top-k 129 with --window 16384"), UsageError);
    run.top_k = 128;
    CHECK_NOTHROW(validate(run));
    run.attention = AttentionMode::kDense;
    CHECK_THROWS_WITH_AS(validate(run), doctest::Contains("--top-k: found 128 with --attention dense"), UsageError);
}

}  // namespace
}  // namespace oomb::testing
