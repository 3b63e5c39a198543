// Sliding windows on the CPU, of the run and of the model's layers, with sinks: dense where a window reaches all of the
// sequence, float64 autograd under the same mask elsewhere.

#include "tests/trainer/gradient_case.hpp"

namespace oomb::testing {
namespace {

RunConfiguration with_window(RunConfiguration run, std::int64_t window, std::int64_t sinks = 0,
                             std::int64_t read_pages = 2) {
    run.attention = AttentionMode::kLocal;
    run.local_window = window;
    run.sinks = sinks;
    run.window_tokens = read_pages * run.page_tokens;
    return run;
}

ModelShape shape_with(std::vector<std::int64_t> windows) {
    ModelShape shape = small_shape();
    shape.layers = std::ssize(windows);
    shape.sliding_windows = std::move(windows);
    return shape;
}

TEST_CASE("gradients are those of autograd under the same mask: contexts, chunks, windows, sinks") {
    struct Case {
        std::int64_t context, chunk, window, sinks, read_pages;
    };
    // Windows below a page, of whole pages and one more or less, below a chunk, of a chunk, of several; a last chunk of
    // one token and of one page less one. Sinks within the first chunk, all of it, beyond it, nearly all.
    const Case cases[] = {{61, 16, 1, 0, 1},   {61, 16, 2, 0, 2},  {61, 16, 7, 8, 1},   {64, 16, 8, 0, 2},
                          {65, 16, 9, 0, 2},   {64, 16, 15, 8, 2}, {64, 16, 16, 0, 1},  {71, 16, 17, 8, 2},
                          {61, 16, 24, 0, 1},  {61, 16, 25, 8, 1}, {50, 8, 33, 16, 2},  {97, 24, 40, 8, 9},
                          {97, 40, 41, 0, 2},  {97, 32, 8, 24, 1}, {97, 32, 13, 32, 2}, {97, 16, 21, 40, 1},
                          {81, 16, 30, 72, 2}, {30, 32, 9, 16, 2}, {30, 32, 9, 8, 1},   {113, 16, 64, 0, 3}};
    for (const Case& c : cases) {
        CAPTURE(c.window);
        CAPTURE(c.sinks);
        const RunConfiguration run = with_window(small_run(c.context, c.chunk), c.window, c.sinks, c.read_pages);
        check_step(small_shape(), run, 0.1);
        check_step(small_shape(), offloaded(run, Keep::kNone), 0.1);
    }
}

TEST_CASE("wherever pages lie, whatever is kept and held: gradients, and the same bits") {
    const std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> cases[] = {
        {61, 16, 21, 8}, {77, 16, 40, 0}, {53, 24, 5, 16}};
    for (const auto& [context, chunk, window, sinks] : cases) {
        CAPTURE(context);
        std::vector<double> expected;
        for (const Way& way : all_ways()) {
            CAPTURE(to_text(way));
            const RunConfiguration run = in_way(with_window(small_run(context, chunk), window, sinks), way);
            check_step(small_shape(), run);
            const auto found = StepCase(run, small_shape()).run<double>().gradients;
            expected = expected.empty() ? found : expected;
            CHECK(same_bits(found, expected));
        }
    }
}

TEST_CASE("windows of the model's layers, all, some and of several lengths, alone and under a window of the run") {
    const std::vector<std::int64_t> models[] = {{12, 12}, {0, 12}, {12, 0}, {0, 0, 30, 30}, {20, 7, 0}};
    for (const auto& windows : models) {
        const ModelShape shape = shape_with(windows);
        for (const Way& way : {Way{}, Way{Offload::kHost, Keep::kOutput}, Way{Offload::kHost, Keep::kInputAndOutput},
                               Way{Offload::kHost, Keep::kNone, some(2)}}) {
            CAPTURE(to_text(way));
            check_step(shape, in_way(small_run(77, 16), way));
            check_step(shape, in_way(with_window(small_run(77, 16), 15), way));
        }
    }
}

TEST_CASE("every head ratio, biases and norms") {
    const std::tuple<std::int64_t, std::int64_t, std::int64_t> heads[] = {{2, 2, 8}, {3, 1, 64}, {6, 2, 128}};
    for (const auto& [query_heads, kv_heads, head_dim] : heads) {
        ModelShape shape = shape_with({0, 19});
        shape.query_heads = query_heads;
        shape.kv_heads = kv_heads;
        shape.head_dim = head_dim;
        shape.qkv_bias = shape.output_bias = head_dim == 8;
        shape.qk_norm = head_dim == 64;
        check_step(shape, offloaded(small_run(61, 16), Keep::kNone));
    }
}

TEST_CASE("accumulation over sequences longer and shorter than the window") {
    const ModelShape shape = small_shape();
    const std::vector<TestSequence> sequences = {
        random_sequence(50, shape.vocab, 1, 0.2), random_sequence(3, shape.vocab, 2),
        random_sequence(61, shape.vocab, 3, 0.7), random_sequence(18, shape.vocab, 4)};
    for (const Way& way : all_ways()) {
        CAPTURE(to_text(way));
        check_step(shape, in_way(with_window(small_run(61, 16), 19, 8), way), sequences);
    }
}

TEST_CASE("pages of real size, more queries than one CPU tile") {
    RunConfiguration run = small_run(1500, 512);
    run.page_tokens = 128;
    run = with_window(run, 300, 128, 2);
    check_step(small_shape(), offloaded(run, Keep::kNone));
    run.local_window = 700;
    check_step(small_shape(), offloaded(run, Keep::kNone));
}

// The schedule is the dense one, so nothing can differ: plan, operations, bits.
TEST_CASE("with a window that reaches all of the sequence the run is the dense one, bit for bit") {
    for (const std::int64_t context : {16, 45, 64}) {
        for (const Way& way : all_ways()) {
            CAPTURE(context);
            CAPTURE(to_text(way));
            const RunConfiguration dense = in_way(small_run(context, 16), way);
            const auto expected = StepCase(dense, small_shape()).run<double>();
            for (const std::int64_t window : {context, context + 1, 10 * context}) {
                const StepCase found(with_window(dense, window, 8), small_shape());
                const auto outcome = found.run<double>();
                CHECK(same_bits(outcome.gradients, expected.gradients));
                CHECK(same_bits(outcome.weights, expected.weights));
                CHECK(found.plan.peak_bytes(Tier::kHbm) == StepCase(dense, small_shape()).plan.peak_bytes(Tier::kHbm));
            }
        }
    }
}

TEST_CASE("one token less in the window changes the gradients, so does one page less of sinks") {
    const auto gradients = [](std::int64_t window, std::int64_t sinks) {
        return StepCase(with_window(small_run(61, 16), window, sinks), small_shape()).run<double>().gradients;
    };
    CHECK_FALSE(same_bits(gradients(60, 0), gradients(61, 0)));
    CHECK_FALSE(same_bits(gradients(20, 8), gradients(21, 8)));
    CHECK_FALSE(same_bits(gradients(20, 0), gradients(20, 8)));
}

}  // namespace
}  // namespace oomb::testing
