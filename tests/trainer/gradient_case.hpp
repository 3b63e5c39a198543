#pragma once
// A step of the CPU backend beside full-sequence autograd in float64, tensor by tensor.

#include "tests/trainer/step_case.hpp"

namespace oomb::testing {

// Sums of at most ~1e5 products of unit scale, rounded at 1.1e-16 each and added in another order: 1e-12 to 1e-11 of
// the tensor's norm. A tensor whose gradient is zero up to rounding (a key bias: softmax does not see it) is measured
// against its layer's gradient instead.
inline constexpr double kTolerance = 1e-10;

inline void check_gradients(const trainer::ParameterLayout& layout, const std::vector<double>& found,
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

inline void check_step(const ModelShape& shape, const RunConfiguration& run,
                       const std::vector<TestSequence>& sequences) {
    CAPTURE(run.context_tokens);
    CAPTURE(run.chunk_tokens);
    const trainer::ParameterLayout layout(shape);
    const auto weights = random_weights(layout);
    std::vector<trainer::SequenceView> views;
    for (const auto& sequence : sequences) {
        views.push_back(sequence.view());
    }
    const OracleTopK top_k{run.chunk_tokens, run.page_tokens, run.top_k};
    const bool selects = run.attention == AttentionMode::kTopK;
    const OracleResult oracle = oracle_step(shape, layout, weights, views, DType::kF64, selects ? &top_k : nullptr,
                                            {run.local_window, run.sinks});
    const auto outcome = run_step<double>(schedule::make_plan(shape, run), weights, sequences);
    CHECK(outcome.result.loss == doctest::Approx(oracle.loss).epsilon(1e-12));
    CHECK(outcome.lists == oracle.lists);
    check_gradients(layout, outcome.gradients, oracle.gradients);
}

inline void check_step(const ModelShape& shape, const RunConfiguration& run, double ignored = 0.0) {
    check_step(shape, run, {random_sequence(run.context_tokens, shape.vocab, 7, ignored)});
}

inline RunConfiguration offloaded(RunConfiguration run, Keep keep) {
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.keep = keep;
    return run;
}

inline RunConfiguration in_way(RunConfiguration run, const Way& way) {
    run.offload = way.offload;
    run.keep = way.keep;
    run.held_chunks = way.held_chunks;
    run.kept_pages = way.kept_pages;
    if (way.offload == Offload::kHost) {
        run.hbm_pages.mode = HbmPages::Mode::kRing;
    }
    return run;
}

}  // namespace oomb::testing
