// What an evaluation looks into on the CUDA backend: recall beside the whole attention matrix in float64, and gradients
// at the outputs of the K and V projections beside autograd's.

#include "tests/trainer/cuda/cuda_step.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

struct Measured {
    std::int64_t context, chunk, page, window;
    std::vector<std::int64_t> budgets;
    RunConfiguration run(DType type) const {
        RunConfiguration run = gpu_run(context, chunk, type);
        run.forward_only = true;
        run.optimizer = false;
        run.page_tokens = page;
        run.window_tokens = window;
        for (const std::int64_t budget : budgets) {
            run.recall_budgets.push_back(budget);
        }
        return run;
    }
};
// Ragged last chunks and query pages, histories of several windows; pages beyond a tile of the kernel.
const Measured kMeasured[] = {
    {243, 64, 16, 64, {1, 3, 8}}, {150, 16, 16, 32, {2, 5}}, {1'100, 256, 128, 256, {1, 2, 4}}};

RunConfiguration offloaded(RunConfiguration run) {
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    return run;
}

template <class T>
std::vector<RecallSums> recall_on_cuda(const RunConfiguration& run, const std::vector<double>& weights,
                                       const TestSequence& sequence) {
    const schedule::Plan plan = schedule::make_plan(gpu_shape(), run);
    trainer::CudaBackend<T> backend(plan);
    set_weights(backend, weights);
    trainer::Executor executor(plan, backend);
    executor.evaluate(sequence.view());
    executor.evaluate(sequence.view());  // begins anew
    for (int tier = 0; tier < kTiers; ++tier) {
        CHECK(backend.touched_bytes(static_cast<Tier>(tier)) <= plan.arena_bytes[tier]);
    }
    return backend.recall();
}

// `chosen`: of what the scores choose. A page that float64 puts one place before another may come after it, so single
// pages of all lists may be others.
void check_recall(const std::vector<RecallSums>& found, const std::vector<RecallSums>& expected, double tolerance,
                  double chosen) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(found[i].query_pages == expected[i].query_pages);
        CHECK(found[i].all_mass == expected[i].all_mass);
        CHECK(found[i].history_mass == doctest::Approx(expected[i].history_mass).epsilon(tolerance));
        CHECK(found[i].by_mass == doctest::Approx(expected[i].by_mass).epsilon(tolerance));
        CHECK(found[i].by_recency == doctest::Approx(expected[i].by_recency).epsilon(tolerance));
        CHECK(found[i].by_chance == doctest::Approx(expected[i].by_chance).epsilon(tolerance));
        CHECK(found[i].by_score == doctest::Approx(expected[i].by_score).epsilon(chosen));
        double pages = 0, expected_pages = 0;
        for (std::int64_t bin = 0; bin < kDistanceBins; ++bin) {
            pages += found[i].distances[bin];
            expected_pages += expected[i].distances[bin];
        }
        CHECK(pages == expected_pages);
    }
}

// Masses are sums of softmaxes: relative errors are those of exponents, some 1e-6 in fp32 through two layers, 1e-2 in
// bf16, of which sums over hundreds of rows and keys keep a part.
TEST_CASE("recall is what the whole attention matrix says") {
    for (const Measured& measured : kMeasured) {
        CAPTURE(measured.context);
        const ModelShape shape = gpu_shape();
        const trainer::ParameterLayout layout(shape);
        const auto weights = bf16_weights(layout);
        const TestSequence sequence = random_sequence(measured.context, shape.vocab, 7);
        const std::vector<RecallSums> expected =
            oracle_recall(shape, layout, weights, sequence.view(), measured.chunk, measured.page, measured.budgets);
        const RunConfiguration fp32 = measured.run(DType::kF32);
        check_recall(recall_on_cuda<float>(fp32, weights, sequence), expected, 1e-4, 1e-2);
        check_recall(recall_on_cuda<float>(offloaded(fp32), weights, sequence), expected, 1e-4, 1e-2);
        check_recall(recall_on_cuda<BFloat16>(offloaded(measured.run(DType::kBF16)), weights, sequence), expected, 2e-2,
                     5e-2);
    }
}

TEST_CASE("measuring recall changes no loss") {
    const ModelShape shape = gpu_shape();
    const auto weights = bf16_weights(trainer::ParameterLayout(shape));
    RunConfiguration run = offloaded(kMeasured[0].run(DType::kF32));
    const TestSequence sequence = random_sequence(run.context_tokens, shape.vocab, 7);
    const auto losses = [&] {
        const schedule::Plan plan = schedule::make_plan(shape, run);
        trainer::CudaBackend<float> backend(plan);
        set_weights(backend, weights);
        trainer::Executor executor(plan, backend);
        return executor.evaluate(sequence.view()).token_losses;
    };
    const std::vector<double> measured = losses();
    run.recall_budgets.clear();
    CHECK(same_bits(measured, losses()));
}

double relative_difference(const std::vector<double>& found, const std::vector<double>& expected) {
    double difference = 0, size = 0;
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        difference += std::pow(found[i] - expected[i], 2);
        size += std::pow(expected[i], 2);
    }
    return std::sqrt(difference / size);
}

// What --gradient-error compares. Within the tolerance of fp32 gradients, as in gradient_gpu_test.cpp.
TEST_CASE("fp32: gradients at the outputs of the K and V projections are autograd's, as they come by") {
    const ModelShape shape = gpu_shape();
    const RunConfiguration run = offloaded(gpu_run(243, 64, DType::kF32));
    const auto weights = bf16_weights(trainer::ParameterLayout(shape));
    const TestSequence sequence = random_sequence(run.context_tokens, shape.vocab, 7, 0.1);
    const schedule::Plan plan = schedule::make_plan(shape, run);
    trainer::CudaBackend<float> backend(plan);
    set_weights(backend, weights);
    trainer::Executor executor(plan, backend);
    const std::int64_t width = shape.kv_width();
    std::vector<std::vector<double>> keys(shape.layers, std::vector<double>(run.context_tokens * width)), values = keys;
    backend.on_kv_gradients = [&](const schedule::Operation& operation, const trainer::KvGradients& gradients) {
        const std::int64_t place = operation.first_row * width;
        std::copy(gradients.keys.begin(), gradients.keys.end(), keys[operation.id.layer].begin() + place);
        std::copy(gradients.values.begin(), gradients.values.end(), values[operation.id.layer].begin() + place);
    };
    const std::vector<trainer::SequenceView> views = {sequence.view()};
    executor.compute_gradients(views, {});
    const OracleResult oracle = oracle_step(shape, backend.layout(), weights, views);
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
        CHECK(relative_difference(keys[layer], oracle.key_gradients[layer]) <= 1e-4);
        CHECK(relative_difference(values[layer], oracle.value_gradients[layer]) <= 1e-4);
    }
}

}  // namespace
}  // namespace oomb::testing
