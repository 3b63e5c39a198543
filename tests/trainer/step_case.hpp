#pragma once
// One small step whose pages all travel, and its variants: what the tests of order and of mutations run over and over.

#include <fmt/format.h>

#include <bit>

#include "runtime/core/error.hpp"
#include "tests/trainer/step_fixture.hpp"

namespace oomb::testing {

using Order = trainer::CpuBackendOptions::Order;

// Q/K norm and biases included: they touch what the plain model does not.
inline ModelShape busy_shape() {
    ModelShape shape = small_shape();
    shape.qk_norm = true;
    shape.qkv_bias = true;
    return shape;
}

// Where activations, pages and optimizer states of a step stay.
struct Way {
    Offload offload = Offload::kNone;
    Keep keep = Keep::kNone;
    Amount held_chunks = {};
    Amount kept_pages = {Amount::Mode::kAll, 0};
    Amount resident_shards = {Amount::Mode::kAll, 0};  // of 6
    std::int64_t top_k = 0;                            // not 0: top-K pages, of up to 6
    std::int64_t local_window = 0;                     // not 0: attention over so many tokens, and
    std::int64_t sinks = 0;
};

inline RunConfiguration step_run(DType type, const Way& way) {
    const Offload offload = way.offload;
    // With lists so long that the ring, which has more frames then, does not hold all pages.
    RunConfiguration run = small_run(way.top_k > 0 ? 77 : 53, 16, type);
    run.offload = offload;
    run.keep = way.keep;
    run.held_chunks = way.held_chunks;
    run.kept_pages = way.kept_pages;
    run.shard_parameters = 2048;
    run.resident_shards = way.resident_shards;
    run.attention = way.top_k > 0          ? AttentionMode::kTopK
                    : way.local_window > 0 ? AttentionMode::kLocal
                                           : AttentionMode::kDense;
    run.top_k = way.top_k;
    run.local_window = way.local_window;
    run.sinks = way.sinks;
    if (offload == Offload::kHost) {
        run.hbm_pages.mode = HbmPages::Mode::kRing;
    }
    return run;
}

inline RunConfiguration step_run(DType type, Offload offload, Keep keep) {
    return step_run(type, Way{offload, keep});
}

inline constexpr Amount kAllOfThem{Amount::Mode::kAll, 0};
inline constexpr Amount some(std::int64_t count) {
    return {Amount::Mode::kCount, count};
}

// Every choice with and without offload, taking turns optimizer states in HBM, on the host, in both. With three pages
// kept: one chunk, or an odd number of layers of two.
inline std::vector<Way> all_ways() {
    std::vector<Way> ways;
    for (const Offload offload : {Offload::kNone, Offload::kHost}) {
        for (const Keep keep : {Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}) {
            ways.push_back({offload, keep});
            if (keep != Keep::kNone) {
                ways.push_back({offload, keep, some(0), some(3)});
            }
            for (const Amount held : {some(1), some(2), kAllOfThem}) {
                if (!keeps_input(keep)) {
                    ways.push_back({offload, keep, held});
                }
                if (keep == Keep::kOutput) {
                    ways.push_back({offload, keep, held, some(3)});
                }
            }
        }
    }
    const Amount shards[] = {kAllOfThem, some(0), some(2)};
    for (std::size_t i = 0; i < ways.size(); ++i) {
        ways[i].resident_shards = shards[i % std::size(shards)];
    }
    return ways;
}

// With lists of two pages: the second chunk is dense, the others have two groups each (the last one, of one page, one).
inline std::vector<Way> top_k_ways() {
    std::vector<Way> ways = all_ways();
    for (Way& way : ways) {
        way.top_k = 2;
    }
    return ways;
}

// Windows that reach into the chunk before and the one before that, with a page of sinks.
inline std::vector<Way> local_ways() {
    std::vector<Way> ways = all_ways();
    for (Way& way : ways) {
        way.local_window = 21;
        way.sinks = 8;
    }
    return ways;
}

inline std::string to_text(const Way& way) {
    return fmt::format("offload {}, keep {}, kept pages {}, held chunks {}, optimizer states {}, top-K {}, window {}",
                       name_of(way.offload), name_of(way.keep), to_text(way.kept_pages), to_text(way.held_chunks),
                       states_text(way.resident_shards), way.top_k, way.local_window);
}

// Weights and data of the step; two sequences, so that the second finds buffers that the first has used.
struct StepCase {
    schedule::Plan plan;
    std::vector<double> weights;
    std::vector<TestSequence> sequences;

    explicit StepCase(const RunConfiguration& run, const ModelShape& shape = busy_shape())
        : plan(schedule::make_plan(shape, run)),
          weights(random_weights(trainer::ParameterLayout(shape))),
          sequences{random_sequence(run.context_tokens, shape.vocab, 3, 0.2),
                    random_sequence(std::min<std::int64_t>(19, run.context_tokens), shape.vocab, 4)} {}

    template <class T>
    StepOutcome<T> run(trainer::CpuBackendOptions options = {}) const {
        return run_step<T>(plan, weights, sequences, std::move(options));
    }
};

// Bit for bit: NaN equals NaN, 0 does not equal -0.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Between two bf16 numbers of which the one nearer to zero is even: whole masters are rounded to it, split ones not.
inline bool is_tie_down(float master) {
    return (std::bit_cast<std::uint32_t>(master) & 0x1ffffU) == 0x8000U;
}

}  // namespace oomb::testing
