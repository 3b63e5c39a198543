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
    const trainer::ParameterLayout layout(shape);
    const auto weights = bf16_weights(layout);
    const auto oracle = [&](DType type) {
        return oracle_step(shape, layout, weights, views_of(sequences), type, nullptr, {run.local_window, run.sinks});
    };
    const OracleResult exact = oracle(DType::kF64), torch = oracle(DType::kBF16);
    const auto found = run_cuda_step<BFloat16>(schedule::make_plan(shape, run), weights, sequences, options);
    const double worst = check_beside_torch(layout, found.gradients, torch.gradients, exact.gradients);
    MESSAGE("context ", run.context_tokens, ", chunk ", run.chunk_tokens, ": bf16 error at most ", worst,
            " of PyTorch's");
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

TEST_CASE("fp32 and bf16: sliding windows of the run, with sinks, and of the model's layers") {
    for (const DType type : {DType::kF32, DType::kBF16}) {
        const auto check = [&](const ModelShape& shape, RunConfiguration run, std::int64_t window, std::int64_t sinks) {
            CAPTURE(window);
            if (window > 0) {
                run.attention = AttentionMode::kLocal;
                run.local_window = window;
                run.sinks = sinks;
            }
            for (const RunConfiguration& way : {run, offloaded(run, Keep::kNone), offloaded(run, Keep::kOutput)}) {
                const auto sequences = one_sequence(way, shape);
                type == DType::kF32 ? check_fp32(shape, way, sequences) : check_bf16(shape, way, sequences);
            }
        };
        const RunConfiguration run = gpu_run(243, 64, type);
        for (const std::int64_t window : {17, 48, 65, 100, 128, 200}) {
            check(gpu_shape(), run, window, 0);
        }
        check(gpu_shape(), run, 70, 16);
        check(gpu_shape(), run, 64, 96);
        ModelShape shape = gpu_shape();
        shape.sliding_windows = {0, 90};
        check(shape, run, 0, 0);
        check(shape, run, 40, 0);
    }
}

TEST_CASE("fp32 and bf16: every choice of what is kept") {
    for (const DType type : {DType::kF32, DType::kBF16}) {
        const auto check = [&](RunConfiguration run) {
            ModelShape shape = gpu_shape();
            shape.qk_norm = true;
            shape.qkv_bias = true;
            const auto sequences = one_sequence(run, shape);
            type == DType::kF32 ? check_fp32(shape, run, sequences) : check_bf16(shape, run, sequences);
        };
        const RunConfiguration run = gpu_run(243, 64, type);
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
    const std::pair<std::int64_t, std::int64_t> cases[] = {{256, 64}, {243, 64}, {512, 512}, {1024, 16}};
    for (const auto& [context, chunk] : cases) {
        const RunConfiguration run = gpu_run(context, chunk, DType::kBF16);
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
            const RunConfiguration run = gpu_run(250, 64, DType::kBF16);
            check_bf16(shape, offloaded(run, Keep::kNone), one_sequence(run, shape));
        }
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
