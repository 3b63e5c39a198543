// Top-K pages on the CPU: dense where K reaches the whole history, float64 autograd over the same selection elsewhere.

#include "tests/trainer/gradient_case.hpp"

namespace oomb::testing {
namespace {

RunConfiguration with_top_k(RunConfiguration run, std::int64_t pages, std::int64_t window_pages) {
    run.attention = AttentionMode::kTopK;
    run.top_k = pages;
    run.window_tokens = window_pages * run.page_tokens;
    return run;
}

TEST_CASE("gradients and lists are those of autograd over the same selection: contexts, chunks, K, groups") {
    struct Case {
        std::int64_t context, chunk, pages, window_pages;
    };
    // Ragged last pages and chunks; chunks of one page; lists in groups of 1, 2, 3 and 5; K from 1 to all pages but
    // one.
    const Case cases[] = {{64, 16, 1, 1},  {61, 16, 1, 2}, {61, 16, 2, 4}, {50, 8, 1, 3},  {53, 8, 3, 3},
                          {100, 24, 2, 2}, {97, 24, 3, 9}, {97, 40, 4, 9}, {90, 32, 7, 8}, {113, 16, 5, 11}};
    for (const Case& c : cases) {
        CAPTURE(c.pages);
        const RunConfiguration run = with_top_k(small_run(c.context, c.chunk), c.pages, c.window_pages);
        REQUIRE(schedule::StepShape(small_shape(), run).selects());
        check_step(small_shape(), run, 0.1);
    }
}

TEST_CASE("wherever pages lie, whatever is kept and held: gradients, lists, and the same bits") {
    const std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> cases[] = {
        {61, 16, 1, 2}, {77, 16, 2, 3}, {53, 8, 4, 5}};
    for (const auto& [context, chunk, pages, window_pages] : cases) {
        CAPTURE(context);
        std::vector<double> expected;
        for (const Way& way : all_ways()) {
            CAPTURE(to_text(way));
            const RunConfiguration run = in_way(with_top_k(small_run(context, chunk), pages, window_pages), way);
            check_step(small_shape(), run);
            const auto found = StepCase(run, small_shape()).run<double>().gradients;
            expected = expected.empty() ? found : expected;
            CHECK(same_bits(found, expected));
        }
    }
}

TEST_CASE("every head ratio, biases and norms, one layer and five") {
    const std::tuple<std::int64_t, std::int64_t, std::int64_t> heads[] = {
        {2, 2, 8}, {3, 1, 64}, {7, 1, 16}, {6, 2, 128}};
    for (const auto& [query_heads, kv_heads, head_dim] : heads) {
        ModelShape shape = small_shape();
        shape.query_heads = query_heads;
        shape.kv_heads = kv_heads;
        shape.head_dim = head_dim;
        check_step(shape, offloaded(with_top_k(small_run(61, 16), 2, 3), Keep::kNone));
    }
    for (int bits = 1; bits < 16; ++bits) {
        ModelShape shape = small_shape();
        shape.qkv_bias = (bits & 1) != 0;
        shape.output_bias = (bits & 2) != 0;
        shape.qk_norm = (bits & 4) != 0;
        shape.tied_embeddings = (bits & 8) != 0;
        CAPTURE(bits);
        check_step(shape, offloaded(with_top_k(small_run(45, 8), 2, 4), Keep::kOutput));
    }
    for (const std::int64_t layers : {1, 5}) {
        ModelShape shape = small_shape();
        shape.layers = layers;
        for (const Way& way : all_ways()) {
            CAPTURE(to_text(way));
            check_step(shape, in_way(with_top_k(small_run(58, 16), 1, 3), way));
        }
    }
}

TEST_CASE("accumulation over sequences with lists and without") {
    const ModelShape shape = small_shape();
    const std::vector<TestSequence> sequences = {
        random_sequence(50, shape.vocab, 1, 0.2), random_sequence(3, shape.vocab, 2),
        random_sequence(61, shape.vocab, 3, 0.7), random_sequence(33, shape.vocab, 4)};
    for (const Way& way : all_ways()) {
        CAPTURE(to_text(way));
        check_step(shape, in_way(with_top_k(small_run(61, 16), 3, 4), way), sequences);
    }
}

TEST_CASE("pages of real size, more queries than one CPU tile") {
    RunConfiguration run = with_top_k(small_run(1500, 512), 5, 1);
    run.page_tokens = 128;
    run.window_tokens = 6 * 128;
    check_step(small_shape(), offloaded(run, Keep::kNone));
}

// Lists name part of the pages alone: so many gradient pages are enough, and one less ends the step.
TEST_CASE("room for as many gradient pages as lists name: the same bits; for one less: an error that names the flag") {
    RunConfiguration run = offloaded(with_top_k(small_run(117, 16), 1, 2), Keep::kNone);
    const auto all = StepCase(run, small_shape()).run<double>();
    const auto on_host = [](const auto& outcome) {
        return outcome.most_frames[static_cast<int>(Tier::kHost)][static_cast<int>(PageClass::kKvGradient)];
    };
    const std::int64_t named = on_host(all);
    const schedule::Plan plan = schedule::make_plan(small_shape(), run);
    REQUIRE(named < plan.pool(Tier::kHost, PageClass::kKvGradient)->frames);
    run.gradient_pages = {Amount::Mode::kCount, named};
    const StepCase enough(run, small_shape());
    CHECK(enough.plan.pool(Tier::kHost, PageClass::kKvGradient)->frames == named);
    const auto found = enough.run<double>();
    CHECK(same_bits(found.gradients, all.gradients));
    CHECK(on_host(found) == named);
    run.gradient_pages.count = named - 1;
    CHECK_THROWS_WITH_AS(StepCase(run, small_shape()).run<double>(), doctest::Contains("a larger --gradient-pages"),
                         DoesNotFitError);
    run.gradient_pages.count = 1'000'000;
    CHECK(schedule::make_plan(small_shape(), run).peak_bytes(Tier::kHost) == plan.peak_bytes(Tier::kHost));
}

// The schedule is the dense one, so nothing can differ: operations, plan, bits.
TEST_CASE("with K at least the pages of the history the run is the dense one, bit for bit") {
    for (const std::int64_t context : {16, 17, 45, 64, 131}) {
        for (const std::int64_t chunk : {8, 16, 40}) {
            for (const Way& way : all_ways()) {
                CAPTURE(context);
                CAPTURE(chunk);
                CAPTURE(to_text(way));
                const schedule::StepShape step(small_shape(), small_run(context, chunk));
                const std::int64_t history = std::max<std::int64_t>(1, step.first_page(step.chunks() - 1));
                RunConfiguration dense = in_way(small_run(context, chunk), way);
                dense.window_tokens = (history + 1) * dense.page_tokens;
                const auto expected = StepCase(dense, small_shape()).run<double>();
                for (const std::int64_t pages : {history, history + 1}) {
                    const StepCase found(with_top_k(dense, pages, history + 1), small_shape());
                    const auto outcome = found.run<double>();
                    CHECK(same_bits(outcome.gradients, expected.gradients));
                    CHECK(same_bits(outcome.weights, expected.weights));
                    CHECK(found.plan.peak_bytes(Tier::kHbm) ==
                          schedule::make_plan(small_shape(), dense).peak_bytes(Tier::kHbm));
                }
            }
        }
    }
}

}  // namespace
}  // namespace oomb::testing
