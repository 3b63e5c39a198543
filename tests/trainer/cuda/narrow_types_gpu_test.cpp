// Gradients of matrices stored in bf16 and split master weights on the CUDA backend: against whole masters, against
// AdamW in float64, and against the bound of roundings that the CPU's run gives.

#include "tests/trainer/accumulated.hpp"
#include "tests/trainer/cuda/cuda_step.hpp"

namespace oomb::testing {
namespace {

RunConfiguration narrow_run(bool bf16_gradients, bool split_masters, Amount resident = kAllOfThem) {
    RunConfiguration run = gpu_run(150, 64, DType::kBF16);
    run.deterministic = true;
    run.shard_parameters = 20'000;  // of 375,000: shards cut through matrices
    run.resident_shards = resident;
    run.bf16_gradients = bf16_gradients;
    run.split_masters = split_masters;
    return run;
}

ModelShape biased_shape() {
    ModelShape shape = gpu_shape();
    shape.qk_norm = true;
    shape.qkv_bias = true;
    shape.output_bias = true;
    return shape;
}

struct Training {
    explicit Training(const RunConfiguration& run, trainer::CudaBackendOptions options = {})
        : step(run, biased_shape()), backend(step.plan, std::move(options)), executor(step.plan, backend) {
        set_weights(backend, bf16_weights(backend.layout()));
    }
    trainer::StepSettings run_step(std::int64_t number) {
        const trainer::StepSettings settings{.step = number, .learning_rate = 1e-3, .weight_decay = 0.1};
        executor.compute_gradients(views_of(step), settings);
        gradients = values_of<double>(backend, &trainer::Backend::gradient);
        executor.update_weights();
        return settings;
    }
    std::vector<float> masters() { return values_of<float>(backend, &trainer::Backend::weight); }

    StepCase step;
    trainer::CudaBackend<BFloat16> backend;
    trainer::Executor executor;
    std::vector<double> gradients;  // of the last step
};

// Checks that all masters are equal after each step, up to and with the first that leaves one at a tie: from there on
// the runs are different ones. Of 375,000 masters some are in nearly every step, so only the first step is certain to
// be compared. Returns how many were.
std::int64_t check_equal_steps(const RunConfiguration& whole_run, const RunConfiguration& split_run,
                               std::optional<std::uint64_t> stress_seed) {
    trainer::CudaBackendOptions options;
    options.streams.stress_seed = stress_seed;
    Training whole(whole_run), split(split_run, std::move(options));
    for (std::int64_t step = 1; step <= 4; ++step) {
        whole.run_step(step);
        split.run_step(step);
        const std::vector<float> masters = whole.masters();
        CHECK(same_bits(split.gradients, whole.gradients));
        CHECK(same_bits(split.masters(), masters));
        for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
            CHECK(split.backend.touched_bytes(tier) == split.step.plan.arena_bytes[static_cast<int>(tier)]);
        }
        if (std::any_of(masters.begin(), masters.end(), is_tie_down)) {
            return step;
        }
    }
    return 4;
}

TEST_CASE("split master weights: the same bits as whole ones, in HBM, on the host, in both, streams delayed") {
    std::int64_t compared = 0;
    for (const bool bf16_gradients : {false, true}) {
        for (const Amount resident : {kAllOfThem, some(0), some(9)}) {
            CAPTURE(states_text(resident));
            for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>{}, {7}}) {
                compared += check_equal_steps(narrow_run(bf16_gradients, false),
                                              narrow_run(bf16_gradients, true, resident), seed);
            }
        }
    }
    MESSAGE(compared, " steps compared in 12 runs");
}

// AdamW in float64 on the gradients that the backend hands out.
struct ExactAdamW {
    std::vector<double> weights, m, v;

    explicit ExactAdamW(std::vector<double> initial)
        : weights(std::move(initial)), m(weights.size()), v(weights.size()) {}
    void step(const trainer::ParameterLayout& layout, const std::vector<double>& gradients,
              const trainer::StepSettings& s) {
        const auto t = static_cast<double>(s.step);
        for (std::size_t p = 0; p < layout.parameters().size(); ++p) {
            const double decay = layout.parameters()[p].shape.size() == 2 ? s.weight_decay : 0.0;
            for (std::int64_t i = layout.offset(p); i < layout.offset(p + 1); ++i) {
                m[i] = s.beta1 * m[i] + (1 - s.beta1) * gradients[i];
                v[i] = s.beta2 * v[i] + (1 - s.beta2) * gradients[i] * gradients[i];
                weights[i] -= s.learning_rate * decay * weights[i];
                weights[i] -= s.learning_rate * m[i] / (1 - std::pow(s.beta1, t)) /
                              (std::sqrt(v[i] / (1 - std::pow(s.beta2, t))) + s.epsilon);
            }
        }
    }
};

// Each step rounds a weight three times at 2^-24 of it. The update is at most 5e-3 (|m| / sqrt(v) is below 5 with these
// betas) and off by some 20 roundings: 4 roundings of 1 + |w| in all.
TEST_CASE("masters are those of AdamW in float64 on the stored gradients") {
    for (const bool bf16_gradients : {false, true}) {
        for (const bool split : {false, true}) {
            Training training(narrow_run(bf16_gradients, split, some(9)));
            const auto& layout = training.backend.layout();
            ExactAdamW exact(bf16_weights(layout));
            for (std::int64_t step = 1; step <= 4; ++step) {
                const trainer::StepSettings settings = training.run_step(step);
                exact.step(layout, training.gradients, settings);
                const std::vector<float> masters = training.masters();
                double worst = 0;
                for (std::size_t i = 0; i < masters.size(); ++i) {
                    worst = std::max(worst, std::abs(masters[i] - exact.weights[i]) / (1 + std::abs(exact.weights[i])));
                }
                CHECK(worst <= 4 * 0x1p-24 * static_cast<double>(step));
            }
        }
    }
}

// As in narrow_types_test.cpp what is added is the same in both runs, but cuBLASLt rounds it before it adds it, too.
// The sizes on the way are those of the CPU's run, of which a norm differs by less than a tenth.
TEST_CASE("gradients in bf16 are off by two roundings for each addition: of the product, and of the sum") {
    RunConfiguration on_cpu = narrow_run(true, false);
    on_cpu.device = DeviceKind::kCpu;
    const Accumulated sizes = accumulate(on_cpu, biased_shape());
    Training wide(narrow_run(false, false)), narrow(narrow_run(true, false));
    wide.run_step(1);
    narrow.run_step(1);
    const auto& layout = wide.backend.layout();
    std::vector<double> rounding(wide.gradients);
    std::transform(narrow.gradients.begin(), narrow.gradients.end(), rounding.begin(), rounding.begin(),
                   std::minus<double>());
    double worst = 0;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        const trainer::ParameterInfo& parameter = layout.parameters()[i];
        CAPTURE(parameter.name);
        const double found = norm_of(rounding, layout, i),
                     bound = 1.1 * kBf16Roundoff * (sizes.norms[i] + sizes.added[i]);
        CHECK(narrow.backend.gradient(i).dtype == (is_vector(parameter.kind) ? DType::kF32 : DType::kBF16));
        if (is_vector(parameter.kind)) {
            CHECK(found == 0.0);
        } else {
            CHECK(found > 0.0);
            CHECK(found <= bound);
            worst = std::max(worst, found / bound);
        }
    }
    MESSAGE("rounding at most ", worst, " of its bound");
}

TEST_CASE("random weights are the same numbers whatever the types, wherever the master weights lie") {
    const auto drawn = [](const RunConfiguration& run) {
        const schedule::Plan plan = schedule::make_plan(biased_shape(), run);
        trainer::CudaBackend<BFloat16> backend(plan);
        REQUIRE(backend.randomize_weights(11));
        return values_of<float>(backend, &trainer::Backend::weight);
    };
    const std::vector<float> expected = drawn(narrow_run(false, false));
    for (const bool bf16_gradients : {false, true}) {
        for (const Amount resident : {kAllOfThem, some(0), some(9)}) {
            CHECK(same_bits(drawn(narrow_run(bf16_gradients, true, resident)), expected));
            CHECK(same_bits(drawn(narrow_run(bf16_gradients, false, resident)), expected));
        }
    }
}

TEST_CASE("weights are read back as they were set") {
    for (const Amount resident : {kAllOfThem, some(0), some(9)}) {
        Training training(narrow_run(true, true, resident));
        const auto exact = random_weights(training.backend.layout());
        set_weights(training.backend, exact);
        CHECK(same_bits(training.masters(), std::vector<float>(exact.begin(), exact.end())));
    }
}

}  // namespace
}  // namespace oomb::testing
