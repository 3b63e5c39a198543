// Where the optimizer's states lie changes no bit, and the master weights are found wherever that is.

#include "tests/trainer/cuda/cuda_step.hpp"
#include "tests/trainer/step_case.hpp"
#include "tests/weights/files.hpp"
#include "trainer/checkpoint/checkpoint_folder.hpp"

namespace oomb::testing {
namespace {

using trainer::TemporaryFolder;

constexpr std::int64_t kShard = 20'000;  // of 375,000 parameters: 19 shards that cut through matrices

RunConfiguration sharded_run(Amount resident, DType type = DType::kBF16) {
    RunConfiguration run = gpu_run(150, 64, type);
    run.deterministic = true;
    run.shard_parameters = kShard;
    run.resident_shards = resident;
    return run;
}

std::vector<float> weights_of(trainer::Backend& backend) {
    std::vector<float> weights(backend.layout().elements());
    for (std::size_t i = 0; i < backend.layout().parameters().size(); ++i) {
        const trainer::TensorValues values = backend.weight(i);
        REQUIRE(values.bytes.size() == backend.layout().parameters()[i].elements * sizeof(float));
        std::memcpy(weights.data() + backend.layout().offset(i), values.bytes.data(), values.bytes.size());
    }
    return weights;
}

struct Trained {
    std::vector<float> before, after;
    std::vector<double> norms;
    std::int64_t scheduled_bytes = 0, copied_bytes = 0;
};

// Four steps, some of them clipped.
template <class T>
Trained train(const RunConfiguration& run, std::optional<std::uint64_t> stress_seed = {}) {
    const schedule::Plan plan = schedule::make_plan(gpu_shape(), run);
    trainer::CudaBackendOptions options;
    options.streams.stress_seed = stress_seed;
    trainer::CudaBackend<T> backend(plan, std::move(options));
    set_weights(backend, random_weights(backend.layout()));
    trainer::Executor executor(plan, backend);
    Trained result;
    result.before = weights_of(backend);
    const TestSequence sequence = random_sequence(150, gpu_shape().vocab, 5);
    const std::vector<trainer::SequenceView> views = {sequence.view()};
    for (std::int64_t number = 1; number <= 4; ++number) {
        const trainer::StepSettings settings{
            .step = number, .learning_rate = 1e-3, .weight_decay = 0.1, .max_grad_norm = number % 2 == 0 ? 0.1 : 0.0};
        result.norms.push_back(executor.compute_gradients(views, settings).gradient_norm);
        executor.update_weights();
    }
    result.after = weights_of(backend);
    for (const auto engine : {schedule::Engine::kHostToDevice, schedule::Engine::kDeviceToHost}) {
        result.scheduled_bytes += executor.scheduled(engine).bytes;
        result.copied_bytes += backend.copied(engine).bytes;
    }
    return result;
}

template <class T>
void check_homes(DType type) {
    const Trained expected = train<T>(sharded_run(kAllOfThem, type));
    const auto exact = random_weights(trainer::ParameterLayout(gpu_shape()));
    CHECK(same_bits(expected.before, std::vector<float>(exact.begin(), exact.end())));
    CHECK_FALSE(same_bits(expected.after, expected.before));
    const schedule::Plan host = schedule::make_plan(gpu_shape(), sharded_run(some(0), type));
    REQUIRE(host.host_shards == 19);
    for (const std::int64_t resident : {0, 9, 18}) {
        for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>{}, {7}}) {
            CAPTURE(resident);
            const Trained found = train<T>(sharded_run(some(resident), type), seed);
            CHECK(same_bits(found.before, expected.before));
            CHECK(same_bits(found.norms, expected.norms));
            CHECK(same_bits(found.after, expected.after));
            CHECK(found.copied_bytes == found.scheduled_bytes);
            CHECK(found.copied_bytes > expected.copied_bytes);
        }
    }
}

TEST_CASE("bf16: states in HBM, on the host, or in both, streams delayed at random: the same bits") {
    check_homes<BFloat16>(DType::kBF16);
}

TEST_CASE("fp32, without master weights: the same") {
    check_homes<float>(DType::kF32);
}

TEST_CASE("random weights are the same numbers wherever the master weights lie") {
    const auto drawn = [](Amount resident) {
        const schedule::Plan plan = schedule::make_plan(gpu_shape(), sharded_run(resident));
        trainer::CudaBackend<BFloat16> backend(plan);
        REQUIRE(backend.randomize_weights(11));
        return weights_of(backend);
    };
    const std::vector<float> expected = drawn(kAllOfThem);
    CHECK(same_bits(drawn(some(0)), expected));
    CHECK(same_bits(drawn(some(9)), expected));
}

// Weights, m and v of every parameter.
std::vector<std::byte> state_of(trainer::Backend& backend) {
    std::vector<std::byte> bits;
    const auto add = [&](const trainer::TensorValues& values) {
        bits.insert(bits.end(), values.bytes.begin(), values.bytes.end());
    };
    for (std::size_t i = 0; i < backend.layout().parameters().size(); ++i) {
        add(backend.weight(i));
        add(backend.moment(trainer::Moment::kM, i));
        add(backend.moment(trainer::Moment::kV, i));
    }
    return bits;
}

void run_steps(trainer::Backend& backend, const schedule::Plan& plan, std::int64_t first, std::int64_t last) {
    trainer::Executor executor(plan, backend);
    const TestSequence sequence = random_sequence(150, gpu_shape().vocab, 5);
    const std::vector<trainer::SequenceView> views = {sequence.view()};
    for (std::int64_t number = first; number <= last; ++number) {
        executor.compute_gradients(views, {.step = number, .learning_rate = 1e-3, .weight_decay = 0.1});
        executor.update_weights();
    }
}

template <class T>
void check_goes_on(DType type, bool split_masters) {
    const auto plan_with = [&](Amount resident) {
        RunConfiguration run = sharded_run(resident, type);
        run.split_masters = split_masters;
        return schedule::make_plan(gpu_shape(), run);
    };
    const schedule::Plan here = plan_with(some(9)), there = plan_with(some(2));
    trainer::CudaBackend<T> whole(here);
    set_weights(whole, random_weights(whole.layout()));
    run_steps(whole, here, 1, 4);

    const TemporaryFolder folder;
    trainer::write_file(folder / "config.json", "{}");
    trainer::CudaBackend<T> first(here);
    set_weights(first, random_weights(first.layout()));
    run_steps(first, here, 1, 2);
    trainer::CheckpointFacts facts;
    facts.step = facts.sequences = 2;
    facts.data_fingerprint = std::string(16, '0');
    facts.cursor.source_tokens = 1;
    trainer::CheckpointFolder(folder / "state", folder / "config.json", here).write(first, facts, "{}");
    trainer::CudaBackend<T> second(there);
    restore(second, trainer::newest_checkpoint(folder / "state").value(), there);
    CHECK(state_of(second) == state_of(first));
    run_steps(second, there, 3, 4);
    CHECK(state_of(second) == state_of(whole));
    CHECK_FALSE(state_of(second) == state_of(first));
}

TEST_CASE("deterministic, from a checkpoint, with states in other places: the bits of a run that did not end") {
    check_goes_on<float>(DType::kF32, false);
    check_goes_on<BFloat16>(DType::kBF16, false);
    check_goes_on<BFloat16>(DType::kBF16, true);
}

}  // namespace
}  // namespace oomb::testing
