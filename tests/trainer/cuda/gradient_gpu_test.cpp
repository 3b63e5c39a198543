// Gradients of the CUDA backend against full-sequence autograd in float64: fp32 as close as its arithmetic allows, bf16
// within 1.5 of the error of PyTorch's own bf16 autograd.

#include "tests/trainer/cuda/cuda_step.hpp"

namespace oomb::testing {
namespace {

// Sums of some 1e3 products in fp32, rounded at 6e-8 each, through two layers of 0.1 to 1 gain: a few 1e-6 of a
// tensor's norm; 1e-4 is what is promised.
constexpr double kFp32Tolerance = 1e-4;

std::vector<trainer::SequenceView> views_of(const std::vector<TestSequence>& sequences) {
    std::vector<trainer::SequenceView> views;
    for (const auto& sequence : sequences) {
        views.push_back(sequence.view());
    }
    return views;
}

void check_fp32(const ModelShape& shape, const RunConfiguration& run, const std::vector<TestSequence>& sequences) {
    CAPTURE(run.context_tokens);
    CAPTURE(run.chunk_tokens);
    const trainer::ParameterLayout layout(shape);
    const auto weights = bf16_weights(layout);
    const OracleResult oracle =
        oracle_step(shape, layout, weights, views_of(sequences), DType::kF64, nullptr, {run.local_window, run.sinks});
    const auto found = run_cuda_step<float>(schedule::make_plan(shape, run), weights, sequences);
    CHECK(found.result.loss == doctest::Approx(oracle.loss).epsilon(1e-5));
    const std::vector<double> errors = relative_errors(layout, found.gradients, oracle.gradients);
    for (std::size_t i = 0; i < errors.size(); ++i) {
        CAPTURE(layout.parameters()[i].name);
        CHECK(errors[i] <= kFp32Tolerance);
    }
}

void check_bf16(const ModelShape& shape, const RunConfiguration& run, const std::vector<TestSequence>& sequences,
                const trainer::CudaBackendOptions& options = {}) {
    CAPTURE(run.context_tokens);
    CAPTURE(run.chunk_tokens);
    CAPTURE(name_of(run.attention_kernels));
    const trainer::ParameterLayout layout(shape);
    const auto weights = bf16_weights(layout);
    const auto oracle = [&](DType type) {
        return oracle_step(shape, layout, weights, views_of(sequences), type, nullptr, {run.local_window, run.sinks});
    };
    const OracleResult exact = oracle(DType::kF64), torch = oracle(DType::kBF16);
    const auto found = run_cuda_step<BFloat16>(schedule::make_plan(shape, run), weights, sequences, options);
    const double worst = check_beside_torch(layout, found.gradients, torch.gradients, exact.gradients);
    MESSAGE("context ", run.context_tokens, ", chunk ", run.chunk_tokens, ", kernels ", name_of(run.attention_kernels),
            ": bf16 error at most ", worst, " of PyTorch's");
}

RunConfiguration offloaded(RunConfiguration run, Keep keep) {
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.keep = keep;
    return run;
}

std::vector<TestSequence> one_sequence(const RunConfiguration& run, const ModelShape& shape, double ignored = 0.1) {
    return {random_sequence(run.context_tokens, shape.vocab, 7, ignored)};
}

TEST_CASE("fp32: contexts and chunks, resident and offloaded, kept and not") {
    const std::pair<std::int64_t, std::int64_t> cases[] = {{256, 64}, {243, 64}, {128, 128},
                                                           {1, 16},   {65, 64},  {300, 32}};
    for (const auto& [context, chunk] : cases) {
        const RunConfiguration run = gpu_run(context, chunk, DType::kF32);
        check_fp32(gpu_shape(), run, one_sequence(run, gpu_shape()));
        check_fp32(gpu_shape(), offloaded(run, Keep::kNone), one_sequence(run, gpu_shape()));
        check_fp32(gpu_shape(), offloaded(run, Keep::kInputAndOutput), one_sequence(run, gpu_shape()));
    }
}

constexpr AttentionKernels kOwn = AttentionKernels::kOwn;

// fp32, and bf16 by either kind of kernels: uneven last chunks and windows.
std::vector<RunConfiguration> uneven_runs() {
    return {gpu_run(243, 64, DType::kF32), KernelCut{243, 64}.run(), KernelCut{1'100, 512, kOwn}.run()};
}

void check_either(const ModelShape& shape, const RunConfiguration& run) {
    const auto sequences = one_sequence(run, shape);
    run.compute == DType::kF32 ? check_fp32(shape, run, sequences) : check_bf16(shape, run, sequences);
}

void check_window(const ModelShape& shape, RunConfiguration run, std::int64_t window, std::int64_t sinks) {
    CAPTURE(window);
    if (window > 0) {
        run.attention = AttentionMode::kLocal;
        run.local_window = window;
        run.sinks = sinks;
    }
    for (const RunConfiguration& way : {run, offloaded(run, Keep::kNone), offloaded(run, Keep::kOutput)}) {
        check_either(shape, way);
    }
}

TEST_CASE("fp32 and bf16: sliding windows of the run, with sinks, and of the model's layers") {
    for (const RunConfiguration& run : uneven_runs()) {
        const std::int64_t unit = run.page_tokens / 16;  // windows reach as many pages back
        for (const std::int64_t window : {17, 48, 65, 100, 128, 200}) {
            check_window(gpu_shape(), run, window * unit, 0);
        }
        check_window(gpu_shape(), run, 70 * unit, 16 * unit);
        check_window(gpu_shape(), run, 64 * unit, 96 * unit);
        ModelShape shape = gpu_shape();
        shape.sliding_windows = {0, 90 * unit};
        check_window(shape, run, 0, 0);
        check_window(shape, run, 40 * unit, 0);
    }
}

// A chunk that is longer than the window and has sinks in it: two parts of its own.
TEST_CASE("bf16: sinks within a chunk by our own kernels") {
    for (const std::int64_t sinks : {128, 256, 640}) {
        check_window(gpu_shape(), KernelCut{1'100, 512, kOwn}.run(), 200, sinks);
    }
}

TEST_CASE("fp32 and bf16: every choice of what is kept") {
    for (const RunConfiguration& run : uneven_runs()) {
        const auto check = [&](const RunConfiguration& way) {
            ModelShape shape = gpu_shape();
            shape.qk_norm = true;
            shape.qkv_bias = true;
            check_either(shape, way);
        };
        for (const Keep keep : {Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}) {
            check(offloaded(run, keep));
            for (const std::int64_t held : {1, 2, 4}) {
                RunConfiguration holds = offloaded(run, keep);
                holds.held_chunks = {Amount::Mode::kCount, held};
                if (!keeps_input(keep)) {
                    check(holds);
                }
            }
        }
    }
}

TEST_CASE("fp32: biases, Q/K norm, tied embeddings, each and together") {
    for (int bits = 1; bits < 16; ++bits) {
        ModelShape shape = gpu_shape();
        shape.qkv_bias = (bits & 1) != 0;
        shape.output_bias = (bits & 2) != 0;
        shape.qk_norm = (bits & 4) != 0;
        shape.tied_embeddings = (bits & 8) != 0;
        CAPTURE(bits);
        const RunConfiguration run = gpu_run(150, 48, DType::kF32);
        check_fp32(shape, offloaded(run, Keep::kNone), one_sequence(run, shape));
    }
}

TEST_CASE("fp32: accumulation over unequal sequences") {
    const ModelShape shape = gpu_shape();
    const std::vector<TestSequence> sequences = {random_sequence(200, shape.vocab, 1, 0.2),
                                                 random_sequence(3, shape.vocab, 2),
                                                 random_sequence(130, shape.vocab, 3, 0.7)};
    check_fp32(shape, gpu_run(200, 64, DType::kF32), sequences);
}

TEST_CASE("bf16: contexts and chunks, resident and offloaded, kept and not") {
    const KernelCut cuts[] = {{256, 64},        {243, 64},          {512, 512},
                              {1024, 16},       {1024, 256, kOwn},  {975, 256, kOwn},
                              {512, 512, kOwn}, {1'665, 128, kOwn}, {130, 128, kOwn}};
    for (const KernelCut& cut : cuts) {
        RunConfiguration run = cut.run();
        check_bf16(gpu_shape(), run, one_sequence(run, gpu_shape()));
        run.deterministic = true;
        check_bf16(gpu_shape(), run, one_sequence(run, gpu_shape()));
        check_bf16(gpu_shape(), offloaded(run, Keep::kNone), one_sequence(run, gpu_shape()));
        check_bf16(gpu_shape(), offloaded(run, Keep::kInputAndOutput), one_sequence(run, gpu_shape()));
    }
}

TEST_CASE("bf16: families and head ratios") {
    const std::tuple<std::int64_t, std::int64_t, std::int64_t> heads[] = {
        {4, 4, 64}, {3, 1, 64}, {7, 1, 128}, {8, 2, 128}};
    for (const auto& [query_heads, kv_heads, head_dim] : heads) {
        for (int bits = 0; bits < 8; bits += 7) {
            ModelShape shape = gpu_shape();
            shape.query_heads = query_heads;
            shape.kv_heads = kv_heads;
            shape.head_dim = head_dim;
            shape.qkv_bias = (bits & 1) != 0;
            shape.qk_norm = (bits & 2) != 0;
            shape.tied_embeddings = (bits & 4) != 0;
            for (const KernelCut& cut : {KernelCut{250, 64}, {600, 256, kOwn}}) {
                const RunConfiguration run = cut.run();
                check_bf16(shape, offloaded(run, Keep::kNone), one_sequence(run, shape));
            }
        }
    }
}

// Two sets of roundings that happen to be, as beside PyTorch; ours sums partial results and dQ over windows in fp32.
TEST_CASE("bf16: our own kernels are no farther from float64 than cuDNN, of the same step") {
    for (const bool deterministic : {false, true}) {
        const ModelShape shape = gpu_shape();
        const trainer::ParameterLayout layout(shape);
        const auto weights = bf16_weights(layout);
        RunConfiguration run = offloaded(KernelCut{1'100, 256, kOwn}.run(), Keep::kNone);
        run.deterministic = deterministic;
        const auto sequences = one_sequence(run, shape);
        const auto gradients_by = [&](AttentionKernels kernels) {
            run.attention_kernels = kernels;
            return run_cuda_step<BFloat16>(schedule::make_plan(shape, run), weights, sequences).gradients;
        };
        const OracleResult exact = oracle_step(shape, layout, weights, views_of(sequences));
        const double worst =
            check_beside_torch(layout, gradients_by(kOwn), gradients_by(AttentionKernels::kCudnn), exact.gradients);
        MESSAGE("deterministic ", deterministic, ": error at most ", worst, " of that with cuDNN");
    }
}

TEST_CASE("bf16: our plain attention in place of cuDNN's") {
    trainer::CudaBackendOptions options;
    options.plain_attention = true;
    const RunConfiguration run = gpu_run(243, 64, DType::kBF16);
    check_bf16(gpu_shape(), offloaded(run, Keep::kNone), one_sequence(run, gpu_shape()), options);
}

}  // namespace
}  // namespace oomb::testing
