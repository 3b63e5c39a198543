// Chunked gradients equal full-sequence autograd in float64, tensor by tensor.

#include "tests/trainer/gradient_case.hpp"

namespace oomb::testing {
namespace {

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
