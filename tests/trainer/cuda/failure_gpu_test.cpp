// Failures on the GPU: a copy that the driver refuses, NaN, memory that others hold. Each is one error that says what
// it was about; nothing hangs, and the process goes on with a new backend.

#include <unistd.h>

#include <functional>
#include <limits>

#include "runtime/core/units.hpp"
#include "runtime/device/check.hpp"
#include "tests/core/messages.hpp"
#include "tests/trainer/cuda/cuda_step.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

using schedule::Kind;
using schedule::Phase;
using trainer::CudaBackend;
using trainer::CudaBackendOptions;

constexpr trainer::StepSettings kSettings{.learning_rate = 0.1, .weight_decay = 0.1};
constexpr unsigned kHangs_seconds = 120;  // a step takes milliseconds, a backend a second

// A test that hangs ends the program by a signal, which CTest reports.
struct Watchdog {
    Watchdog() { alarm(kHangs_seconds); }
    ~Watchdog() { alarm(0); }
};

bool copies_fail = false;

cudaError_t batch_that_may_fail(void* const* destinations, const void* const* sources, const std::size_t* bytes,
                                std::size_t count, cudaMemcpyAttributes* attributes, std::size_t* attribute_begins,
                                std::size_t attribute_count, cudaStream_t stream) {
    return copies_fail ? cudaErrorIllegalAddress
                       : cudaMemcpyBatchAsync(destinations, sources, bytes, count, attributes, attribute_begins,
                                              attribute_count, stream);
}

CudaBackendOptions failing_options() {
    CudaBackendOptions options;
    options.streams.copy_calls.batch = batch_that_may_fail;
    options.plain_attention = true;  // cuDNN's plans take seconds to build
    return options;
}

// Every copy of the chosen kind and phase fails; `after`, if given, is called when an operation has been enqueued.
template <class T>
class FaultyBackend : public CudaBackend<T> {
  public:
    explicit FaultyBackend(const schedule::Plan& plan) : CudaBackend<T>(plan, failing_options()) {}
    ~FaultyBackend() override { copies_fail = false; }

    void take(issue::IssuedOperation issued) override {
        const schedule::OperationId id = issued.operation.id;
        copies_fail = fault && fault->first == id.kind && fault->second == id.phase;
        CudaBackend<T>::take(std::move(issued));
        if (after) {
            after(id);
        }
    }

    std::optional<std::pair<Kind, Phase>> fault;
    std::function<void(const schedule::OperationId&)> after;
};

// All pages travel.
struct Case {
    explicit Case(DType type)
        : plan(schedule::make_plan(gpu_shape(),
                                   [&] {
                                       RunConfiguration run = gpu_run(300, 64, type);
                                       run.offload = Offload::kHost;
                                       run.hbm_pages.mode = HbmPages::Mode::kRing;
                                       run.deterministic = true;
                                       return run;
                                   }())),
          weights(bf16_weights(trainer::ParameterLayout(plan.model))),
          sequences{random_sequence(300, plan.model.vocab, 5, 0.1), random_sequence(77, plan.model.vocab, 6)},
          views{sequences[0].view(), sequences[1].view()} {}

    schedule::Plan plan;
    std::vector<double> weights;
    std::vector<TestSequence> sequences;
    std::vector<trainer::SequenceView> views;
};

TEST_CASE("a copy that fails is an error with call and operation, and a new backend works") {
    const Watchdog watchdog;
    const Case c(DType::kF32);
    const CudaOutcome expected = run_cuda_step<float>(c.plan, c.weights, c.sequences);
    const std::pair<Kind, Phase> faults[] = {{Kind::kLoadTokens, Phase::kFill}, {Kind::kWriteBack, Phase::kFill},
                                             {Kind::kFetch, Phase::kFill},      {Kind::kFetch, Phase::kForward},
                                             {Kind::kFetch, Phase::kBackward},  {Kind::kWriteBack, Phase::kBackward}};
    for (const auto& fault : faults) {
        CAPTURE(schedule::name_of(fault.first));
        CAPTURE(schedule::name_of(fault.second));
        {
            FaultyBackend<float> backend(c.plan);
            set_weights(backend, c.weights);
            backend.fault = fault;
            trainer::Executor executor(c.plan, backend);
            const std::string message =
                test::message_of<device::CudaError>([&] { executor.compute_gradients(c.views, kSettings); });
            test::check_contains(message, {"cudaMemcpyBatchAsync", "cudaErrorIllegalAddress", "sequence 0",
                                           schedule::name_of(fault.first), schedule::name_of(fault.second)});
            CHECK_NOTHROW(backend.wait_idle());
        }
        CHECK(same_bits(run_cuda_step<float>(c.plan, c.weights, c.sequences).gradients, expected.gradients));
    }
}

cudaError_t wait_that_fails(cudaEvent_t) {
    return cudaErrorIllegalAddress;
}

TEST_CASE("lists that cannot be waited for: the error says of which layer and query pages") {
    const Watchdog watchdog;
    RunConfiguration run = gpu_run(150, 16, DType::kF32);  // chunks of a page
    run.attention = AttentionMode::kTopK;
    run.top_k = 1;
    run.window_tokens = run.page_tokens;
    const schedule::Plan plan = schedule::make_plan(gpu_shape(), run);
    CudaBackendOptions options = failing_options();
    options.streams.wait_for_event = wait_that_fails;
    CudaBackend<float> backend(plan, options);
    set_weights(backend, bf16_weights(trainer::ParameterLayout(plan.model)));
    trainer::Executor executor(plan, backend);
    const TestSequence sequence = random_sequence(150, plan.model.vocab, 5);
    const std::vector<trainer::SequenceView> views = {sequence.view()};
    // The third chunk is the first with more than one page before it.
    test::check_contains(
        test::message_of<device::CudaError>([&] { executor.compute_gradients(views, kSettings); }),
        {"cudaEventSynchronize", "cudaErrorIllegalAddress", "page lists of layer 0, query pages 2 to 2"});
    CHECK_NOTHROW(backend.wait_idle());
}

std::size_t parameter_of(const trainer::ParameterLayout& layout, std::string_view name) {
    const auto& parameters = layout.parameters();
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const auto& parameter) { return parameter.name == name; });
    REQUIRE(found != parameters.end());
    return static_cast<std::size_t>(found - parameters.begin());
}

// All weights as the backend holds them: the master weights in bf16.
std::vector<std::byte> weight_bits(trainer::Backend& backend) {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < backend.layout().parameters().size(); ++i) {
        const trainer::TensorValues values = backend.weight(i);
        all.insert(all.end(), values.bytes.begin(), values.bytes.end());
    }
    return all;
}

template <class T>
void check_refused(FaultyBackend<T>& backend, const Case& c, const std::string& tensor) {
    const auto before = weight_bits(backend);
    trainer::Executor executor(c.plan, backend);
    const std::string message = test::message_of<NumericError>([&] { executor.compute_gradients(c.views, kSettings); });
    test::check_contains(message, {tensor, "weights were not changed"});
    CHECK(weight_bits(backend) == before);
}

TEST_CASE_TEMPLATE("NaN or infinity in a weight: its tensor is named", T, float, BFloat16) {
    const Watchdog watchdog;
    Case c(std::is_same_v<T, float> ? DType::kF32 : DType::kBF16);
    const std::string name = "model.layers.1.self_attn.v_proj.weight";
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        FaultyBackend<T> backend(c.plan);
        const std::int64_t at = backend.layout().offset(parameter_of(backend.layout(), name)) + 5;
        const double good = std::exchange(c.weights[at], bad);
        set_weights(backend, c.weights);
        check_refused(backend, c, "weight " + name + ", element 5");
        c.weights[at] = good;
    }
}

TEST_CASE_TEMPLATE("NaN in a gradient: its tensor is named", T, float, BFloat16) {
    const Watchdog watchdog;
    const Case c(std::is_same_v<T, float> ? DType::kF32 : DType::kBF16);
    const std::string name = "model.layers.0.mlp.up_proj.weight";
    FaultyBackend<T> backend(c.plan);
    set_weights(backend, c.weights);
    const std::int64_t at = backend.layout().offset(parameter_of(backend.layout(), name)) + 7;
    backend.after = [&](const schedule::OperationId& id) {
        if (id.kind == Kind::kEmbeddingBackward) {
            backend.wait_idle();
            const float bad = std::numeric_limits<float>::quiet_NaN();
            OOMB_CUDA(cudaMemcpy(backend.gradients() + at, &bad, sizeof bad, cudaMemcpyHostToDevice));
        }
    };
    check_refused(backend, c, "gradient of " + name + ", element 7");
}

TEST_CASE("GPU memory that others hold: asked and free bytes are named, and it is taken once it is free") {
    const Watchdog watchdog;
    ModelShape shape = gpu_shape();
    shape.vocab = 200'000;  // hundreds of MiB: more than any rounding of what is free
    const RunConfiguration run = gpu_run(64, 64, DType::kF32);
    const schedule::Plan plan = schedule::make_plan(shape, run);
    const std::int64_t arena = plan.arena_bytes[static_cast<int>(Tier::kHbm)];
    const device::DeviceInfo opened = device::open_device();
    void* held = nullptr;
    OOMB_CUDA(cudaMalloc(&held, static_cast<std::size_t>(opened.free_bytes - arena / 2)));
    const std::string message = test::message_of<DoesNotFitError>([&] { CudaBackend<float> backend(plan); });
    test::check_contains(message, {"GPU memory", format_bytes(arena), "free are", "--gpu-memory"});
    OOMB_CUDA(cudaFree(held));
    CHECK_NOTHROW(CudaBackend<float>{plan});
}

}  // namespace
}  // namespace oomb::testing
