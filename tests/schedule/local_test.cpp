// Sliding windows and sinks in the schedule: which keys are in which part, and what is fetched, against the definition.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "runtime/core/error.hpp"
#include "runtime/schedule/key_parts.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::AttentionCost;
using schedule::KeyPart;
using schedule::KeyParts;
using schedule::Kind;
using schedule::Operation;
using schedule::StepShape;

RandomSteps random_steps(std::uint64_t seed) {
    return RandomSteps(seed, {.layers = 4, .chunks = 7, .pages_per_chunk = 5, .page_tokens = {1, 4}, .local = true});
}

bool sees(const StepShape& shape, std::int64_t layer, std::int64_t query, std::int64_t key) {
    const std::int64_t of_model = shape.model().sliding_window(layer), of_run = shape.run().local_window;
    const bool in_model = of_model == 0 || key > query - of_model;
    const bool in_run = of_run == 0 || key > query - of_run || key < shape.run().sinks;
    return key <= query && in_model && in_run;
}

bool sees(const KeyPart& part, std::int64_t query, std::int64_t key) {
    return key >= part.first && key < part.first + part.tokens && query >= part.first_query &&
           query < part.first_query + part.queries && key <= query &&
           (part.sliding_window == 0 || key > query - part.sliding_window);
}

std::vector<KeyPart> all_parts(const KeyParts& keys) {
    std::vector<KeyPart> parts;
    for (std::int64_t i = 0; i < keys.history(); ++i) {
        parts.push_back(keys.history_part(i));
    }
    for (std::int64_t i = 0; i < keys.own(); ++i) {
        parts.push_back(keys.own_part(i));
    }
    return parts;
}

TEST_CASE("each query sees in the parts what it is to see, once; in each part something") {
    RandomSteps random = random_steps(1);
    int masked = 0;
    for (int i = 0; i < 400; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        for (std::int64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
            const std::int64_t first = shape.first_token(chunk), end = first + shape.tokens_of(chunk);
            for (std::int64_t layer = 0; layer < step.model.layers; ++layer) {
                const std::vector<KeyPart> parts = all_parts(KeyParts(shape, chunk, layer));
                bool exact = true, some = true;
                for (std::int64_t query = first; query < end; ++query) {
                    for (std::int64_t key = 0; key < end; ++key) {
                        const auto times = std::count_if(parts.begin(), parts.end(),
                                                         [&](const KeyPart& part) { return sees(part, query, key); });
                        exact = exact && times == (sees(shape, layer, query, key) ? 1 : 0);
                    }
                    for (const KeyPart& part : parts) {
                        bool any = query < part.first_query || query >= part.first_query + part.queries;
                        for (std::int64_t key = part.first; !any && key < part.first + part.tokens; ++key) {
                            any = sees(part, query, key);
                        }
                        some = some && any;
                    }
                }
                CHECK(exact);
                CHECK(some);
                masked += std::any_of(parts.begin(), parts.end(),
                                      [](const KeyPart& part) { return part.sliding_window > 0; });
            }
        }
    }
    CHECK(masked > 500);
}

TEST_CASE("parts begin with a page, are windows at most, and their pages are those that a query sees") {
    RandomSteps random = random_steps(2);
    for (int i = 0; i < 300; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        const std::int64_t page = step.run.page_tokens;
        std::int64_t longest = 0;
        for (std::int64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
            const std::int64_t first = shape.first_token(chunk), end = first + shape.tokens_of(chunk);
            for (std::int64_t layer = 0; layer < step.model.layers; ++layer) {
                const KeyParts keys(shape, chunk, layer);
                std::set<std::int64_t> read, seen;
                for (std::int64_t part = 0; part < keys.history(); ++part) {
                    const auto [begin, tokens, first_query, queries, window] = keys.history_part(part);
                    CHECK(begin % page == 0);
                    CHECK(tokens <= step.run.window_tokens);
                    CHECK(begin + tokens <= first);
                    longest = std::max(longest, tokens);
                    for (std::int64_t key = begin; key < begin + tokens; key += page) {
                        CHECK(read.insert(key / page).second);
                    }
                }
                for (std::int64_t query = first; query < end; ++query) {
                    for (std::int64_t key = 0; key < first; ++key) {
                        if (sees(shape, layer, query, key)) {
                            seen.insert(key / page);
                        }
                    }
                }
                CHECK(read == seen);
                CHECK(keys.history_pages() == std::ssize(seen));
            }
        }
        CHECK(schedule::longest_history_part(shape) == longest);
    }
}

TEST_CASE("a layer fetches, in each pass, and adds gradients to, the pages of its parts alone") {
    RandomSteps random = random_steps(3);
    for (int i = 0; i < 100; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        for (const Operation& operation : operations_of(step.model, step.run)) {
            const bool reads = operation.id.kind == Kind::kFetch || operation.id.kind == Kind::kAttention ||
                               operation.id.kind == Kind::kAttentionBackward;
            if (!reads) {
                continue;
            }
            const KeyParts keys(shape, operation.id.chunk, operation.id.layer);
            for (const auto& request : operation.requests) {
                const std::int64_t first = request.pages.first, end = first + request.pages.count;
                const bool sinks = end <= keys.sink_pages();
                const bool window = first >= keys.first_page();
                CHECK((sinks || window));
            }
            if (const auto* cost = std::get_if<AttentionCost>(&operation.cost)) {
                CHECK(cost->queries == operation.rows);
                CHECK(cost->first_query == operation.first_row);
                const bool begins = operation.id.part == 0;
                CHECK((!begins || operation.rows == shape.tokens_of(operation.id.chunk)));
            }
        }
    }
}

TEST_CASE("what is refused of windows and sinks") {
    RunConfiguration run;
    run.context_tokens = 4096;
    run.attention = AttentionMode::kLocal;
    CHECK_THROWS_WITH_AS(validate(run), doctest::Contains("--attention local needs --local-window"), UsageError);
    run.local_window = 1000;
    CHECK_NOTHROW(validate(run));
    run.sinks = 100;
    CHECK_THROWS_WITH_AS(validate(run), doctest::Contains("--sinks: 100 tokens is not a multiple of the page"),
                         UsageError);
    run.sinks = 128;
    CHECK_NOTHROW(validate(run));
    ModelShape model = RandomSteps(1).next().model;
    model.sliding_windows.assign(model.layers, 64);
    CHECK_THROWS_WITH_AS(schedule::make_plan(model, run), doctest::Contains("--sinks 128: layers of this model"),
                         UsageError);
    run.attention = AttentionMode::kDense;
    CHECK_THROWS_WITH_AS(validate(run), doctest::Contains("--local-window: found 1000 with --attention dense"),
                         UsageError);
    run.local_window = run.sinks = 0;
    run.attention = AttentionMode::kTopK;
    run.top_k = 2;
    CHECK_THROWS_WITH_AS(schedule::make_plan(model, run), doctest::Contains("--attention topk: layers of this model"),
                         UsageError);
}

}  // namespace
}  // namespace oomb::testing
