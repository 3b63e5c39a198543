// Recall of an evaluation against the whole attention matrix.

#include "tests/trainer/evaluation_case.hpp"

namespace oomb::testing {
namespace {

// Masses are sums of up to some thousand softmaxes, each rounded at 1e-16 of itself.
void check_recall(const RecallSums& found, const RecallSums& expected, double tolerance) {
    const std::pair<double, double> pairs[] = {
        {found.query_pages, expected.query_pages},   {found.all_mass, expected.all_mass},
        {found.history_mass, expected.history_mass}, {found.by_score, expected.by_score},
        {found.by_mass, expected.by_mass},           {found.by_recency, expected.by_recency},
        {found.by_chance, expected.by_chance}};
    for (const auto& [one, other] : pairs) {
        CHECK(one == doctest::Approx(other).epsilon(tolerance));
    }
    for (std::int64_t bin = 0; bin < kDistanceBins; ++bin) {
        CHECK(found.distances[bin] == expected.distances[bin]);
    }
}

template <class T>
void check_recall(const ModelShape& shape, RunConfiguration run, const std::vector<std::int64_t>& budgets,
                  double tolerance) {
    CAPTURE(run.context_tokens);
    CAPTURE(run.chunk_tokens);
    run = evaluation_of(run);
    for (const std::int64_t budget : budgets) {
        run.recall_budgets.push_back(budget);
    }
    const schedule::Plan plan = schedule::make_plan(shape, run);
    const trainer::ParameterLayout layout(shape);
    const std::vector<double> weights = bf16_weights(layout);
    const TestSequence sequence = random_sequence(run.context_tokens, shape.vocab, 5);
    trainer::CpuBackend<T> backend(plan, {.checked = true});
    set_weights(backend, weights);
    trainer::Executor executor(plan, backend);
    executor.evaluate(sequence.view());
    executor.evaluate(sequence.view());  // begins anew
    const std::vector<RecallSums> found = backend.recall();
    const std::vector<RecallSums> expected =
        oracle_recall(shape, layout, weights, sequence.view(), run.chunk_tokens, run.page_tokens, budgets);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        check_recall(found[i], expected[i], tolerance);
    }
}

TEST_CASE("recall is what the whole attention matrix says, windows and ragged ends included") {
    const std::pair<std::int64_t, std::int64_t> cases[] = {{64, 16}, {61, 16}, {53, 8}, {100, 40}};
    for (const auto& [context, chunk] : cases) {
        check_recall<double>(small_shape(), small_run(context, chunk), {1, 2, 5}, 1e-11);
        check_recall<double>(busy_shape(), offloaded(small_run(context, chunk)), {1, 3}, 1e-11);
    }
    ModelShape grouped = small_shape();
    grouped.query_heads = 4;
    grouped.kv_heads = 2;
    check_recall<double>(grouped, small_run(77, 24), {2, 4}, 1e-11);
}

TEST_CASE("pages of more tokens than one tile of queries") {
    RunConfiguration run = small_run(1400, 512);
    run.page_tokens = run.window_tokens = 512;
    check_recall<double>(small_shape(), run, {1}, 1e-11);
}

TEST_CASE("measuring recall changes no loss") {
    RunConfiguration run = evaluation_of(offloaded(small_run(77, 16, DType::kF32)));
    const StepCase data(run);
    const auto expected = evaluate<float>(data.plan, data.weights, data.sequences);
    run.recall_budgets = {1, 2};
    const auto found = evaluate<float>(schedule::make_plan(busy_shape(), run), data.weights, data.sequences);
    CHECK(same_bits(found.results[0].token_losses, expected.results[0].token_losses));
}

}  // namespace
}  // namespace oomb::testing
