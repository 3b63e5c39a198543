// bf16 on the CPU, gradients of matrices stored in bf16, and split master weights, in whole steps.

#include <algorithm>

#include "tests/trainer/accumulated.hpp"

namespace oomb::testing {
namespace {

using schedule::Kind;
using trainer::StateArray;

RunConfiguration bf16_run(const Way& way = {}) {
    RunConfiguration run = step_run(DType::kF32, way);
    run.compute = DType::kBF16;
    return run;
}

ModelShape biased_shape() {
    ModelShape shape = busy_shape();
    shape.output_bias = true;
    return shape;
}

// A backend on weights that bf16 holds exactly, so that no master weight begins at a tie.
struct Training {
    explicit Training(const RunConfiguration& run, trainer::CpuBackendOptions options = {},
                      const ModelShape& shape = biased_shape())
        : step(run, shape), backend(step.plan, checked(std::move(options))), executor(step.plan, backend) {
        set_weights(backend, bf16_weights(backend.layout()));
    }
    static trainer::CpuBackendOptions checked(trainer::CpuBackendOptions options) {
        options.checked = true;
        return options;
    }
    void run_step(std::int64_t number) {
        executor.compute_gradients(
            views_of(step),
            {.step = number, .learning_rate = 0.01, .weight_decay = 0.1, .max_grad_norm = number % 2 == 0 ? 0.5 : 0.0});
        executor.update_weights();
    }
    std::vector<float> masters() { return values_of<float>(backend, &trainer::Backend::weight); }
    std::vector<std::uint16_t> weights() {
        std::vector<std::uint16_t> bits(backend.layout().elements());
        std::transform(backend.weights(), backend.weights() + bits.size(), bits.begin(),
                       [](BFloat16 w) { return w.bits; });
        return bits;
    }

    StepCase step;
    trainer::CpuBackend<BFloat16> backend;
    trainer::Executor executor;
};

// Rounding moves the score of a page by some 2^-8 of it, for the query's and for the key's, and after a few operations
// by a few. Scores closer than this could change places, and other pages would be compared.
constexpr double kLeastScoreGap = 8 * kBf16Roundoff;

void check_run_beside_torch(const Way& way, std::size_t sequences) {
    const ModelShape shape = biased_shape();
    const trainer::ParameterLayout layout(shape);
    const std::vector<double> weights = bf16_weights(layout);
    StepCase step(bf16_run(way), shape);
    step.sequences.resize(sequences);
    const RunConfiguration& run = step.plan.run;
    const OracleTopK top_k{run.chunk_tokens, run.page_tokens, run.top_k};
    const OracleTopK* selects = way.top_k > 0 ? &top_k : nullptr;
    const OracleLocal local{run.local_window, run.sinks};
    const auto exact = oracle_step(shape, layout, weights, views_of(step), DType::kF64, selects, local);
    const auto torch = oracle_step(shape, layout, weights, views_of(step), DType::kBF16, selects, local);
    const auto found = run_step<BFloat16>(step.plan, weights, step.sequences);
    REQUIRE(exact.least_score_gap >= kLeastScoreGap);
    REQUIRE(found.lists == exact.lists);
    REQUIRE(torch.lists == exact.lists);
    const std::vector<double> gradients(found.gradients.begin(), found.gradients.end());
    MESSAGE("error at most ", check_beside_torch(layout, gradients, torch.gradients, exact.gradients), " of PyTorch's");
}

TEST_CASE("bf16 gradients of the CPU are within 1.5 of PyTorch's error against float64") {
    check_run_beside_torch({.offload = Offload::kHost}, 2);
}

TEST_CASE("bf16 gradients of the CPU are within 1.5 of PyTorch's error against float64: top-K pages") {
    check_run_beside_torch({.offload = Offload::kHost, .top_k = 2}, 1);
}

TEST_CASE("bf16 gradients of the CPU are within 1.5 of PyTorch's error against float64: a sliding window") {
    check_run_beside_torch({.offload = Offload::kHost, .local_window = 21, .sinks = 8}, 2);
}

// Gradients do not feed back within a step, so all that is added is the same in both runs, and the error of a gradient
// in bf16 is the sum of its roundings: each at most 2^-8 of what the gradient is then. A hundredth more for fp32 sums
// in another order, some 1e-5 of a gradient.
void check_bf16_gradients(const ModelShape& shape) {
    RunConfiguration run = bf16_run({.offload = Offload::kHost});
    const Accumulated wide = accumulate(run, shape);
    run.bf16_gradients = true;
    const Accumulated narrow = accumulate(run, shape);
    const StepCase step(run, shape);
    const trainer::ParameterLayout layout(shape);
    const auto exact = oracle_step(shape, layout, bf16_weights(layout), views_of(step)).gradients;
    double worst = 0, worst_error = 0;
    std::int64_t most_times = 0;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        CAPTURE(layout.parameters()[i].name);
        std::vector<double> rounding(wide.gradients), wide_error(wide.gradients), narrow_error(narrow.gradients);
        for (std::size_t j = 0; j < exact.size(); ++j) {
            rounding[j] = narrow.gradients[j] - wide.gradients[j];
            wide_error[j] -= exact[j];
            narrow_error[j] -= exact[j];
        }
        const double found = norm_of(rounding, layout, i);
        const double bound = 1.01 * kBf16Roundoff * narrow.norms[i];
        if (is_vector(layout.parameters()[i].kind)) {
            CHECK(found == 0.0);
            continue;
        }
        CHECK(narrow.times[i] > 1);
        CHECK(found > 0.0);
        CHECK(found <= bound);
        CHECK(norm_of(narrow_error, layout, i) <= norm_of(wide_error, layout, i) + bound);
        worst = std::max(worst, found / bound);
        worst_error = std::max(worst_error, norm_of(narrow_error, layout, i) / norm_of(wide_error, layout, i));
        most_times = std::max(most_times, narrow.times[i]);
    }
    MESSAGE("up to ", most_times, " additions: rounding at most ", worst,
            " of its bound, error against float64 at most ", worst_error, " times that with fp32 gradients");
}

TEST_CASE("gradients in bf16 are off by one rounding for each addition") {
    check_bf16_gradients(biased_shape());
}

TEST_CASE("gradients in bf16, tied embeddings: head and embedding add to one matrix") {
    ModelShape shape = busy_shape();
    shape.tied_embeddings = true;
    check_bf16_gradients(shape);
}

TEST_CASE("gradients are handed out in the type in which they are stored") {
    RunConfiguration run = bf16_run();
    run.bf16_gradients = true;
    Training training(run);
    training.executor.compute_gradients(views_of(training.step), {});
    for (std::size_t i = 0; i < training.backend.layout().parameters().size(); ++i) {
        const trainer::ParameterInfo& parameter = training.backend.layout().parameters()[i];
        CAPTURE(parameter.name);
        CHECK(training.backend.gradient(i).dtype == (parameter.shape.size() == 2 ? DType::kBF16 : DType::kF32));
    }
}

TEST_CASE("the norm is that of the stored gradients, and the gradients of a step before are gone") {
    RunConfiguration run = bf16_run();
    run.bf16_gradients = true;
    Training training(run);
    std::vector<double> before;
    for (int i = 0; i < 2; ++i) {
        const auto result = training.executor.compute_gradients(views_of(training.step), {});
        const auto gradients = values_of<double>(training.backend, &trainer::Backend::gradient);
        double squares = 0;
        for (const double gradient : gradients) {
            squares += gradient * gradient;
        }
        CHECK(result.gradient_norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-12));
        CHECK((before.empty() || same_bits(gradients, before)));
        before = gradients;
    }
}

TEST_CASE("a gradient that is not finite is named, in bf16 and in the vectors' own region") {
    for (const char* name : {"model.layers.1.mlp.up_proj.weight", "model.layers.1.self_attn.q_norm.weight"}) {
        CAPTURE(name);
        RunConfiguration run = bf16_run();
        run.bf16_gradients = true;
        Training training(run);
        const auto& parameters = training.backend.layout().parameters();
        const auto found =
            std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
        const auto parameter = static_cast<std::size_t>(found - parameters.begin());
        training.backend.on_done = [&](const schedule::Operation& operation) {
            if (operation.id.kind == Kind::kEmbeddingBackward) {
                const trainer::TensorValues values = training.backend.gradient(parameter);
                const std::int64_t element_bytes = bytes_of(values.dtype);
                std::memset(const_cast<std::byte*>(values.bytes.data()) + 3 * element_bytes, 0xff, element_bytes);
            }
        };
        const std::string expected = fmt::format("gradient of {}, element 3", name);
        CHECK_THROWS_WITH_AS(training.executor.compute_gradients(views_of(training.step), {}),
                             doctest::Contains(expected.c_str()), NumericError);
    }
}

// Few weights, so that a tie among them is rare.
ModelShape tiny_shape() {
    ModelShape shape = biased_shape();
    shape.layers = 1;
    shape.hidden = 8;
    shape.query_heads = 1;
    shape.ffn = 16;
    shape.vocab = 20;
    return shape;
}

// Steps in which all masters, moments and weights were equal, up to and with the first that leaves a weight at a tie:
// it is rounded another way, and from there on the runs are different ones. Of 2^17 weights one is in each step.
std::int64_t equal_steps(const RunConfiguration& whole_run, const RunConfiguration& split_run, const ModelShape& shape,
                         std::int64_t steps, trainer::CpuBackendOptions options) {
    Training whole(whole_run, {}, shape), split(split_run, std::move(options), shape);
    for (std::int64_t step = 1; step <= steps; ++step) {
        const std::vector<float> before = whole.masters();
        whole.run_step(step);
        split.run_step(step);
        const std::vector<float> masters = whole.masters();
        CHECK_FALSE(same_bits(masters, before));
        CHECK(same_bits(split.masters(), masters));
        CHECK(same_bits(split.backend.moments(StateArray::kM), whole.backend.moments(StateArray::kM)));
        CHECK(same_bits(split.backend.moments(StateArray::kV), whole.backend.moments(StateArray::kV)));
        const std::vector<std::uint16_t> rounded = whole.weights(), weights = split.weights();
        bool tie = false;
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < masters.size(); ++i) {
            tie = tie || is_tie_down(masters[i]);
            wrong += weights[i] == rounded[i] + (is_tie_down(masters[i]) ? 1 : 0) ? 0 : 1;
        }
        CHECK(wrong == 0);
        if (tie) {
            return step;
        }
    }
    return steps;
}

// Six steps of gradients in either type with states in HBM, on the host, in both. Returns the least number of steps
// that could be compared.
std::int64_t check_split_masters(const ModelShape& shape, std::int64_t shard_parameters) {
    std::int64_t least = 6;
    for (const bool bf16_gradients : {false, true}) {
        for (const Amount resident : {kAllOfThem, some(0), some(2)}) {
            CAPTURE(states_text(resident));
            RunConfiguration run = bf16_run({.offload = Offload::kHost, .resident_shards = resident});
            run.bf16_gradients = bf16_gradients;
            run.shard_parameters = shard_parameters;
            RunConfiguration split = run;
            split.split_masters = true;
            least = std::min(least, equal_steps(run, split, shape, 6, {.order = Order::kShuffled, .seed = 5}));
        }
    }
    return least;
}

TEST_CASE("split master weights: the same bits as whole ones, in HBM, on the host, in both, in any order") {
    check_split_masters(biased_shape(), 2048);          // of 11,512 weights some come to a tie
    CHECK(check_split_masters(tiny_shape(), 128) > 1);  // of 1032: all six without a tie where this was written
}

TEST_CASE("without an optimizer there are no masters: weights are read back as they are") {
    RunConfiguration run = bf16_run();
    run.split_masters = true;
    run.optimizer = false;
    Training training(run);
    CHECK(training.backend.weight(0).dtype == DType::kBF16);
    CHECK(same_bits(values_of<double>(training.backend, &trainer::Backend::weight),
                    bf16_weights(training.backend.layout())));
}

TEST_CASE("split master weights are read back as they were set, wherever they lie") {
    for (const Amount resident : {kAllOfThem, some(0), some(2)}) {
        RunConfiguration run = bf16_run({.offload = Offload::kHost, .resident_shards = resident});
        run.split_masters = true;
        Training training(run);
        const auto exact = random_weights(training.backend.layout());
        set_weights(training.backend, exact);
        CHECK(same_bits(training.masters(), std::vector<float>(exact.begin(), exact.end())));
    }
}

}  // namespace
}  // namespace oomb::testing
