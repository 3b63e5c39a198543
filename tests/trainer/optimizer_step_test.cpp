// Whole optimizer steps against AdamW written out here.

#include "tests/trainer/step_case.hpp"
#include "trainer/executor/executor.hpp"

namespace oomb::testing {
namespace {

using trainer::StepSettings;

// A dozen operations on numbers of unit scale, rounded at 1.1e-16 each; the square root of a tiny v makes the quotient
// m / sqrt(v) no worse than its relative error.
constexpr double kTolerance = 1e-13;

struct AdamW {
    std::vector<double> weights, m, v;

    void step(const trainer::ParameterLayout& layout, const std::vector<double>& gradients,
              const StepSettings& settings, double clip) {
        for (std::size_t p = 0; p < layout.parameters().size(); ++p) {
            const bool is_matrix = layout.parameters()[p].shape.size() == 2;  // norms and biases are vectors
            const std::int64_t end = layout.offset(p) + layout.parameters()[p].elements;
            for (std::int64_t i = layout.offset(p); i < end; ++i) {
                update(i, clip * gradients[i], settings, is_matrix ? settings.weight_decay : 0.0);
            }
        }
    }

  private:
    void update(std::int64_t i, double g, const StepSettings& s, double decay) {
        const auto t = static_cast<double>(s.step);
        m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
        v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
        const double m_hat = m[i] / (1 - std::pow(s.beta1, t));
        const double v_hat = v[i] / (1 - std::pow(s.beta2, t));
        weights[i] -= s.learning_rate * decay * weights[i];
        weights[i] -= s.learning_rate * m_hat / (std::sqrt(v_hat) + s.epsilon);
    }
};

double norm_of(const std::vector<double>& values) {
    double squares = 0;
    for (const double value : values) {
        squares += value * value;
    }
    return std::sqrt(squares);
}

double largest_difference(const double* found, const std::vector<double>& expected) {
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        largest = std::max(largest, std::abs(found[i] - expected[i]) / (1 + std::abs(expected[i])));
    }
    return largest;
}

// Three steps, of which clipping touches those whose norm is above the limit.
// The last two shards' states stay on the host when `resident` is some(4).
void check_steps(double limit_over_norm, const ModelShape& shape, Amount resident = kAllOfThem) {
    const StepCase step(step_run(DType::kF64, {.offload = Offload::kHost, .resident_shards = resident}), shape);
    trainer::CpuBackend<double> backend(step.plan, {.checked = true});
    std::copy(step.weights.begin(), step.weights.end(), backend.weights());
    trainer::Executor executor(step.plan, backend);
    const auto elements = static_cast<std::size_t>(backend.layout().elements());
    AdamW expected{step.weights, std::vector<double>(elements), std::vector<double>(elements)};
    const std::vector<trainer::SequenceView> views = {step.sequences[0].view(), step.sequences[1].view()};
    double limit = 0;
    for (std::int64_t number = 1; number <= 3; ++number) {
        StepSettings settings{.step = number, .learning_rate = 0.01, .weight_decay = 0.1, .max_grad_norm = limit};
        if (number == 1 && limit_over_norm > 0) {  // the first step's norm sets the limit
            limit = limit_over_norm * norm_of(step.run<double>().gradients);
            settings.max_grad_norm = limit;
        }
        const auto result = executor.compute_gradients(views, settings);
        const std::vector<double> gradients(backend.gradients(), backend.gradients() + elements);
        const double norm = norm_of(gradients);
        CHECK(result.gradient_norm == doctest::Approx(norm).epsilon(1e-12));
        CHECK(largest_difference(backend.weights(), expected.weights) <= kTolerance * static_cast<double>(number));
        executor.update_weights();
        expected.step(backend.layout(), gradients, settings, limit > 0 && norm > limit ? limit / norm : 1.0);
        CHECK(largest_difference(backend.weights(), expected.weights) <= kTolerance * static_cast<double>(number));
        CHECK(largest_difference(backend.moments(trainer::StateArray::kM).data(), expected.m) <= kTolerance);
        CHECK(largest_difference(backend.moments(trainer::StateArray::kV).data(), expected.v) <= kTolerance);
    }
}

TEST_CASE("without clipping") {
    check_steps(0, busy_shape());
}

TEST_CASE("clipped to a part of the norm; a limit above the norm changes nothing") {
    check_steps(0.3, busy_shape());
    check_steps(50, busy_shape());
}

TEST_CASE("states on the host, or of some shards there") {
    check_steps(0.3, busy_shape(), some(0));
    check_steps(0, busy_shape(), some(4));
}

// Three steps; order and homes of the states must leave every bit of weights, m and v.
std::vector<std::vector<float>> states_after_steps(Amount resident, std::int64_t shard_parameters,
                                                   trainer::CpuBackendOptions options) {
    RunConfiguration run = step_run(DType::kF32, {.offload = Offload::kHost, .resident_shards = resident});
    run.shard_parameters = shard_parameters;
    const StepCase step(run);
    options.checked = true;
    trainer::CpuBackend<float> backend(step.plan, std::move(options));
    std::copy(step.weights.begin(), step.weights.end(), backend.weights());
    trainer::Executor executor(step.plan, backend);
    const std::vector<trainer::SequenceView> views = {step.sequences[0].view(), step.sequences[1].view()};
    for (std::int64_t number = 1; number <= 3; ++number) {
        executor.compute_gradients(views,
                                   {.step = number, .learning_rate = 0.01, .weight_decay = 0.1, .max_grad_norm = 0.5});
        executor.update_weights();
    }
    return {std::vector<float>(backend.weights(), backend.weights() + backend.layout().elements()),
            backend.moments(trainer::StateArray::kM), backend.moments(trainer::StateArray::kV)};
}

TEST_CASE("shards of any length, at home in any tier, in any order of execution: the same bits") {
    const auto expected = states_after_steps(kAllOfThem, 1 << 24, {});
    std::mt19937_64 random(12);
    for (std::uint64_t i = 0; i < 40; ++i) {
        const auto shard = static_cast<std::int64_t>(64 + random() % 6000);
        const auto resident = static_cast<std::int64_t>(i % 4 == 0 ? 0 : random() % 12);
        CAPTURE(shard);
        CAPTURE(resident);
        const auto found = states_after_steps(some(resident), shard, {.order = Order::kShuffled, .seed = i});
        for (std::size_t array = 0; array < expected.size(); ++array) {
            CHECK(same_bits(found[array], expected[array]));
        }
    }
}

TEST_CASE("tied embeddings are one parameter") {
    ModelShape shape = busy_shape();
    shape.tied_embeddings = true;
    check_steps(0, shape);
}

TEST_CASE("rate 0 leaves every bit of the weights") {
    const StepCase step(step_run(DType::kF32, Offload::kHost, Keep::kNone));
    trainer::CpuBackend<float> backend(step.plan, {.checked = true});
    std::copy(step.weights.begin(), step.weights.end(), backend.weights());
    backend.weights()[0] = -0.0F;
    const std::vector<float> before(backend.weights(), backend.weights() + backend.layout().elements());
    trainer::Executor executor(step.plan, backend);
    const std::vector<trainer::SequenceView> views = {step.sequences[0].view()};
    executor.compute_gradients(views, {.learning_rate = 0.0, .weight_decay = 0.1, .max_grad_norm = 0.5});
    executor.update_weights();
    CHECK(same_bits(std::vector<float>(backend.weights(), backend.weights() + before.size()), before));
}

}  // namespace
}  // namespace oomb::testing
