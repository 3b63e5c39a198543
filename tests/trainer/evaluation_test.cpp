// Evaluation: the loss of every token is that of the full sequence in float64, and that of training.

#include <numeric>

#include "tests/schedule/random_step.hpp"
#include "tests/trainer/evaluation_case.hpp"

namespace oomb::testing {
namespace {

// A loss near 4 is a sum of some hundred rounded terms: 1e-13. A wrong position, mask or page changes it by more than
// 1e-3.
constexpr double kTolerance = 1e-11;

void check_losses(const std::vector<double>& found, const std::vector<double>& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(found[i] - expected[i]) <= kTolerance);
    }
}

void check(const ModelShape& shape, const RunConfiguration& run, double ignored = 0.0) {
    CAPTURE(run.context_tokens);
    CAPTURE(run.chunk_tokens);
    CAPTURE(run.top_k);
    const trainer::ParameterLayout layout(shape);
    const std::vector<double> weights = random_weights(layout);
    const std::vector<TestSequence> sequences = {random_sequence(run.context_tokens, shape.vocab, 7, ignored)};
    const Evaluated found = evaluate<double>(schedule::make_plan(shape, run), weights, sequences);
    const OracleTopK top_k{run.chunk_tokens, run.page_tokens, run.top_k,
                           run.attention == AttentionMode::kRandom ? &found.lists : nullptr};
    PageListsByLayer lists;
    const std::vector<double> expected =
        oracle_losses(shape, layout, weights, sequences[0].view(), has_page_lists(run.attention) ? &top_k : nullptr,
                      &lists, {run.local_window, run.sinks});
    CHECK(found.lists == lists);
    check_losses(found.results[0].token_losses, expected);
    const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
    CHECK(found.results[0].loss == doctest::Approx(sum).epsilon(1e-12));
}

TEST_CASE("the loss of every token is that of the full sequence: contexts, chunks, wherever pages lie") {
    const std::pair<std::int64_t, std::int64_t> cases[] = {{64, 16}, {61, 16}, {50, 8},  {23, 24},
                                                           {1, 8},   {9, 8},   {17, 16}, {100, 40}};
    for (const auto& [context, chunk] : cases) {
        const RunConfiguration run = evaluation_of(small_run(context, chunk));
        check(small_shape(), run);
        check(busy_shape(), offloaded(run), 0.3);
    }
}

TEST_CASE("top-K and random pages: losses over the lists of each, and top-K's lists are the oracle's") {
    struct Case {
        std::int64_t context, chunk, pages, window_pages;
    };
    const Case cases[] = {{64, 16, 1, 1}, {61, 16, 1, 2}, {61, 16, 2, 4},  {53, 8, 3, 3},
                          {97, 24, 3, 9}, {90, 32, 7, 8}, {113, 16, 5, 11}};
    for (const Case& c : cases) {
        for (const AttentionMode attention : {AttentionMode::kTopK, AttentionMode::kRandom}) {
            const RunConfiguration run =
                evaluation_of(with_pages(small_run(c.context, c.chunk), attention, c.pages, c.window_pages));
            REQUIRE(schedule::StepShape(small_shape(), run).selects());
            check(small_shape(), run);
            check(busy_shape(), offloaded(run), 0.2);
        }
    }
}

TEST_CASE("sliding windows of the run and of layers, sinks: losses under the same mask") {
    struct Case {
        std::int64_t context, chunk, window, sinks_pages;
    };
    const Case cases[] = {{64, 16, 1, 0}, {61, 16, 7, 1}, {97, 24, 24, 3}, {90, 32, 45, 0}, {113, 16, 40, 5}};
    for (const Case& c : cases) {
        RunConfiguration run = evaluation_of(small_run(c.context, c.chunk));
        ModelShape shape = small_shape();
        for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
            shape.sliding_windows.push_back(layer % 2 == 0 ? c.window : 0);
        }
        check(shape, offloaded(run));
        run.attention = AttentionMode::kLocal;
        run.local_window = c.window;
        run.sinks = c.sinks_pages * run.page_tokens;
        check(small_shape(), run);
        check(busy_shape(), offloaded(run), 0.2);
    }
}

TEST_CASE("with K at least the pages of the history losses are the dense ones, bit for bit") {
    for (const std::int64_t context : {16, 45, 131}) {
        for (const std::int64_t chunk : {8, 16, 40}) {
            const schedule::StepShape step(small_shape(), small_run(context, chunk));
            const std::int64_t history = std::max<std::int64_t>(1, step.first_page(step.chunks() - 1));
            RunConfiguration dense = offloaded(evaluation_of(small_run(context, chunk, DType::kF32)));
            dense.window_tokens = (history + 1) * dense.page_tokens;
            const StepCase data(dense, small_shape());
            const auto expected = evaluate<float>(data.plan, data.weights, data.sequences);
            for (const AttentionMode attention : {AttentionMode::kTopK, AttentionMode::kRandom}) {
                const RunConfiguration run = with_pages(dense, attention, history, history + 1);
                const auto found =
                    evaluate<float>(schedule::make_plan(small_shape(), run), data.weights, data.sequences);
                for (std::size_t i = 0; i < data.sequences.size(); ++i) {
                    CHECK(same_bits(found.results[i].token_losses, expected.results[i].token_losses));
                }
            }
        }
    }
}

// The same operations on the same operands: only the order in which chunks are summed differs.
template <class T>
void check_beside_training(RunConfiguration run, DType compute) {
    run.compute = compute;
    run.accumulator = compute == DType::kF64 ? DType::kF64 : DType::kF32;
    const StepCase training(run);
    const auto expected = training.run<T>();
    const Evaluated found =
        evaluate<T>(schedule::make_plan(busy_shape(), evaluation_of(run)), training.weights, training.sequences);
    double loss = 0;
    std::int64_t targets = 0;
    for (const trainer::EvaluationResult& result : found.results) {
        loss += result.loss;
        targets += result.valid_targets;
    }
    CHECK(targets == expected.result.valid_targets);
    CHECK(loss / static_cast<double>(targets) == doctest::Approx(expected.result.loss).epsilon(1e-14));
}

TEST_CASE("the loss is that which training has of the same step, in every type") {
    for (const bool offload : {false, true}) {
        for (const std::int64_t pages : {0, 2}) {
            RunConfiguration run = small_run(53, 16);
            run.shard_parameters = 2048;
            run = pages > 0 ? with_pages(run, AttentionMode::kTopK, pages, 4) : run;
            run = offload ? offloaded(run) : run;
            check_beside_training<double>(run, DType::kF64);
            check_beside_training<float>(run, DType::kF32);
            check_beside_training<BFloat16>(run, DType::kBF16);
        }
    }
}

TEST_CASE("training over random pages: gradients are those of autograd over the same lists") {
    for (const Offload offload : {Offload::kNone, Offload::kHost}) {
        RunConfiguration run = with_pages(small_run(61, 16), AttentionMode::kRandom, 2, 3);
        run = offload == Offload::kHost ? offloaded(run) : run;
        const StepCase data(run, small_shape());
        trainer::CpuBackend<double> backend(data.plan, {.checked = true});
        set_weights(backend, data.weights);
        trainer::Executor executor(data.plan, backend);
        const schedule::StepShape step(small_shape(), run);
        PageListsByLayer lists(2, std::vector<std::int32_t>(step.listed_pages() * run.top_k));
        executor.on_lists([&](const trainer::GroupLists& group) {  // the last layer's from the last chunk on
            const std::int64_t place = group.query_page - step.first_listed_page();
            std::copy(group.lists.begin(), group.lists.end(), lists[group.layer].begin() + place * run.top_k);
        });
        const std::vector<trainer::SequenceView> views = {data.sequences[0].view()};
        executor.compute_gradients(views, {});
        const OracleTopK given{run.chunk_tokens, run.page_tokens, run.top_k, &lists};
        const OracleResult oracle =
            oracle_step(small_shape(), backend.layout(), data.weights, views, DType::kF64, &given);
        const auto found = values_of<double>(backend, &trainer::Backend::gradient);
        for (const double error : relative_errors(backend.layout(), found, oracle.gradients)) {
            CHECK(error <= 1e-10);
        }
    }
}

// What --gradient-error compares. Float keeps 6e-8 of each.
TEST_CASE("gradients at the outputs of the K and V projections are autograd's, as they come by") {
    for (const bool selects : {false, true}) {
        RunConfiguration run = offloaded(small_run(61, 16));
        run = selects ? with_pages(run, AttentionMode::kTopK, 2, 3) : run;
        const StepCase data(run);
        trainer::CpuBackend<double> backend(data.plan, {.checked = true});
        set_weights(backend, data.weights);
        trainer::Executor executor(data.plan, backend);
        const std::int64_t width = busy_shape().kv_width();
        std::vector<std::vector<double>> keys(2, std::vector<double>(61 * width)), values = keys;
        backend.on_kv_gradients = [&](const schedule::Operation& operation, const trainer::KvGradients& gradients) {
            const std::int64_t place = operation.first_row * width;
            std::copy(gradients.keys.begin(), gradients.keys.end(), keys[operation.id.layer].begin() + place);
            std::copy(gradients.values.begin(), gradients.values.end(), values[operation.id.layer].begin() + place);
        };
        const std::vector<trainer::SequenceView> views = {data.sequences[0].view()};
        executor.compute_gradients(views, {});
        const OracleTopK top_k{run.chunk_tokens, run.page_tokens, run.top_k};
        const OracleResult oracle =
            oracle_step(busy_shape(), backend.layout(), data.weights, views, DType::kF64, selects ? &top_k : nullptr);
        const auto check = [](const std::vector<double>& found, const std::vector<double>& expected) {
            REQUIRE(found.size() == expected.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                CHECK(std::abs(found[i] - expected[i]) <= 1e-7 * std::abs(expected[i]) + 1e-13);
            }
        };
        for (std::size_t layer = 0; layer < 2; ++layer) {
            check(keys[layer], oracle.key_gradients[layer]);
            check(values[layer], oracle.value_gradients[layer]);
        }
    }
}

TEST_CASE("the same bits in any order that the waits allow") {
    for (const AttentionMode attention : {AttentionMode::kDense, AttentionMode::kTopK, AttentionMode::kRandom}) {
        RunConfiguration run = evaluation_of(offloaded(small_run(77, 16, DType::kF32)));
        run = attention == AttentionMode::kDense ? run : with_pages(run, attention, 2, 3);
        const StepCase data(run);
        const auto expected = evaluate<float>(data.plan, data.weights, data.sequences);
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            const auto found =
                evaluate<float>(data.plan, data.weights, data.sequences, {.order = Order::kShuffled, .seed = seed});
            CHECK(same_bits(found.results[0].token_losses, expected.results[0].token_losses));
            CHECK(found.results[1].loss == expected.results[1].loss);
        }
    }
}

template <class T>
void check_observed(const schedule::Plan& plan, std::uint64_t seed) {
    CAPTURE(to_json(plan));
    const auto weights = random_weights(trainer::ParameterLayout(plan.model));
    const auto found = evaluate<T>(plan, weights, {random_sequence(plan.run.context_tokens, plan.model.vocab, seed)},
                                   {.order = Order::kShuffled, .seed = seed});
    for (int tier = 0; tier < kTiers; ++tier) {
        CHECK(found.touched_bytes[tier] == plan.arena_bytes[tier]);
        for (int page_class = 0; page_class < kPageClasses; ++page_class) {
            const auto* pool = plan.pool(static_cast<Tier>(tier), static_cast<PageClass>(page_class));
            CHECK(found.most_frames[tier][page_class] == (pool == nullptr ? 0 : pool->frames));
        }
    }
}

TEST_CASE("observed bytes and frames of random evaluations are the planned ones, to the byte") {
    for (const bool top_k : {false, true}) {
        RandomSteps random(43, {.layers = 3,
                                .chunks = top_k ? 7 : 5,
                                .pages_per_chunk = 3,
                                .page_tokens = {8, 16},
                                .any_device = false,
                                .top_k = top_k,
                                .evaluates = true});
        for (std::uint64_t i = 0; i < 90; ++i) {
            const RandomStep step = random.next();
            const schedule::Plan plan = schedule::make_plan(step.model, step.run);
            step.run.compute == DType::kF64   ? check_observed<double>(plan, i)
            : step.run.compute == DType::kF32 ? check_observed<float>(plan, i)
                                              : check_observed<BFloat16>(plan, i);
        }
    }
}

TEST_CASE("with a ring the device arena does not depend on the context") {
    std::int64_t hbm = 0;
    for (const std::int64_t context : {64, 131, 240}) {
        const auto plan = schedule::make_plan(small_shape(), evaluation_of(offloaded(small_run(context, 16))));
        CHECK((hbm == 0 || plan.peak_bytes(Tier::kHbm) == hbm));
        hbm = plan.peak_bytes(Tier::kHbm);
    }
    const auto training = schedule::make_plan(small_shape(), offloaded(small_run(240, 16)));
    CHECK(hbm < training.peak_bytes(Tier::kHbm));
}

TEST_CASE("weights that are no numbers are named") {
    const RunConfiguration run = evaluation_of(small_run(40, 16));
    StepCase data(run, small_shape());
    data.weights[trainer::ParameterLayout(small_shape()).offset(trainer::ParameterKind::kFinalNorm, -1) + 3] = NAN;
    CHECK_THROWS_WITH_AS(evaluate<double>(data.plan, data.weights, data.sequences),
                         doctest::Contains("model.norm.weight"), NumericError);
}

}  // namespace
}  // namespace oomb::testing
