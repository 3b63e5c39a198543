// Chunked gradients equal full-sequence autograd in float64, tensor by tensor.

#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

// Sums of at most ~1e5 products of unit scale, rounded at 1.1e-16 each and added in another order: 1e-12 to 1e-11 of
// the tensor's norm. A tensor whose gradient is zero up to rounding (a key bias: softmax does not see it) is measured
// against its layer's gradient instead.
constexpr double kTolerance = 1e-10;

void check_gradients(const trainer::ParameterLayout& layout, const std::vector<double>& found,
                     const std::vector<double>& expected) {
    std::map<std::int64_t, double> layer_squares;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        for (std::int64_t j = 0; j < layout.parameters()[i].elements; ++j) {
            layer_squares[layout.parameters()[i].layer] += std::pow(expected[layout.offset(i) + j], 2);
        }
    }
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        const auto& parameter = layout.parameters()[i];
        double difference = 0, size = 0;
        for (std::int64_t j = layout.offset(i); j < layout.offset(i) + parameter.elements; ++j) {
            difference += std::pow(found[j] - expected[j], 2);
            size += std::pow(expected[j], 2);
        }
        const double floor = 1e-3 * std::sqrt(layer_squares[parameter.layer]);
        CAPTURE(parameter.name);
        CHECK(std::sqrt(difference) <= kTolerance * std::max(std::sqrt(size), floor));
    }
}

void check_step(const ModelShape& shape, const RunConfiguration& run, const std::vector<TestSequence>& sequences) {
    CAPTURE(run.context_tokens);
    CAPTURE(run.chunk_tokens);
    const trainer::ParameterLayout layout(shape);
    const auto weights = random_weights(layout);
    std::vector<trainer::SequenceView> views;
    for (const auto& sequence : sequences) {
        views.push_back(sequence.view());
    }
    const OracleResult oracle = oracle_step(shape, layout, weights, views);
    const auto outcome = run_step<double>(schedule::make_plan(shape, run), weights, sequences);
    CHECK(outcome.result.loss == doctest::Approx(oracle.loss).epsilon(1e-12));
    check_gradients(layout, outcome.gradients, oracle.gradients);
}

void check_step(const ModelShape& shape, const RunConfiguration& run, double ignored = 0.0) {
    check_step(shape, run, {random_sequence(run.context_tokens, shape.vocab, 7, ignored)});
}

RunConfiguration offloaded(RunConfiguration run, Keep keep) {
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.keep = keep;
    return run;
}

RunConfiguration in_way(RunConfiguration run, const Way& way) {
    run.offload = way.offload;
    run.keep = way.keep;
    run.held_chunks = way.held_chunks;
    run.kept_pages = way.kept_pages;
    if (way.offload == Offload::kHost) {
        run.hbm_pages.mode = HbmPages::Mode::kRing;
    }
    return run;
}

TEST_CASE("any context and chunk: multiples, ragged ends, one chunk, one token") {
    const std::pair<std::int64_t, std::int64_t> cases[] = {{64, 16}, {61, 16}, {50, 8},  {23, 24}, {24, 24},
                                                           {1, 8},   {9, 8},   {17, 16}, {40, 40}};
    for (const auto& [context, chunk] : cases) {
        for (const Way& way : all_ways()) {
            CAPTURE(to_text(way));
            check_step(small_shape(), in_way(small_run(context, chunk), way));
        }
    }
}

TEST_CASE("every head ratio and head size") {
    const std::tuple<std::int64_t, std::int64_t, std::int64_t> cases[] = {
        {2, 2, 64}, {3, 1, 64}, {7, 1, 64}, {6, 2, 128}};
    for (const auto& [query_heads, kv_heads, head_dim] : cases) {
        ModelShape shape = small_shape();
        shape.query_heads = query_heads;
        shape.kv_heads = kv_heads;
        shape.head_dim = head_dim;
        check_step(shape, offloaded(small_run(45, 16), Keep::kNone));
    }
}

TEST_CASE("biases, Q/K norm, tied embeddings, each and together") {
    for (int bits = 1; bits < 16; ++bits) {
        ModelShape shape = small_shape();
        shape.qkv_bias = (bits & 1) != 0;
        shape.output_bias = (bits & 2) != 0;
        shape.qk_norm = (bits & 4) != 0;
        shape.tied_embeddings = (bits & 8) != 0;
        CAPTURE(bits);
        for (const Way& way : all_ways()) {
            CAPTURE(to_text(way));
            check_step(shape, in_way(small_run(30, 8), way));
        }
    }
}

TEST_CASE("ignored targets count neither in the sum nor in the divisor") {
    check_step(small_shape(), small_run(50, 16), 0.4);
    check_step(small_shape(), small_run(50, 8), 0.95);
}

TEST_CASE("accumulation over unequal sequences divides once by all valid targets") {
    const ModelShape shape = small_shape();
    const std::vector<TestSequence> sequences = {random_sequence(50, shape.vocab, 1, 0.2),
                                                 random_sequence(3, shape.vocab, 2),
                                                 random_sequence(33, shape.vocab, 3, 0.7)};
    for (const Way& way : all_ways()) {
        CAPTURE(to_text(way));
        check_step(shape, in_way(small_run(50, 16), way), sequences);
    }
}

TEST_CASE("one layer and five") {
    for (const std::int64_t layers : {1, 5}) {
        ModelShape shape = small_shape();
        shape.layers = layers;
        for (const Way& way : all_ways()) {
            CAPTURE(to_text(way));
            check_step(shape, in_way(small_run(40, 16), way));
        }
    }
}

TEST_CASE("queries beyond one CPU tile, with real page and chunk sizes") {
    RunConfiguration run = small_run(700, 512);
    run.page_tokens = 128;
    run.window_tokens = 256;
    check_step(small_shape(), offloaded(run, Keep::kNone));
}

}  // namespace
}  // namespace oomb::testing
