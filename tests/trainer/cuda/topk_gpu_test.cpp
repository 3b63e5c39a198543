// Top-K and random pages on the CUDA backend: dense where K reaches the whole history; else float64 autograd over the
// same lists, and the lists themselves; the same bits wherever pages lie.

#include <algorithm>

#include "tests/trainer/cuda/cuda_step.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

// Sums of some 1e3 products in fp32 through two layers, as in gradient_gpu_test.cpp.
constexpr double kFp32Tolerance = 1e-4;
// A score is off by its exponents' errors: some 1e-6 of it in fp32, ten times that in the second layer. Pages that
// float64 tells apart by less may change places.
constexpr double kFp32Gap = 1e-4;

RunConfiguration with_pages(RunConfiguration run, AttentionMode mode, std::int64_t pages, std::int64_t window_pages) {
    run.attention = mode;
    run.top_k = pages;
    run.window_tokens = window_pages * run.page_tokens;
    return run;
}

RunConfiguration offloaded(RunConfiguration run, Keep keep) {
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.keep = keep;
    return run;
}

// Pages of 16 tokens go to the plain kernels, pages of 128 to those for sm_90a.
struct Paged {
    std::int64_t context, chunk, page, pages, window_pages;
    AttentionKernels kernels = AttentionKernels::kAuto;  // of what is not over lists
    RunConfiguration run(DType type, AttentionMode mode = AttentionMode::kTopK) const {
        RunConfiguration run = gpu_run(context, chunk, type);
        run.page_tokens = page;
        run.attention_kernels = kernels;
        return with_pages(run, mode, pages, window_pages);
    }
};
const Paged kSmallPages[] = {{243, 64, 16, 3, 7}, {150, 16, 16, 1, 1}, {300, 32, 16, 4, 24}};
const Paged kWholePages[] = {{1'500, 256, 128, 3, 7}, {1'300, 512, 128, 2, 2}};
const Paged kOwnPages[] = {{1'500, 256, 128, 3, 7, AttentionKernels::kOwn},
                           {1'300, 512, 128, 2, 2, AttentionKernels::kOwn}};

// As the issuer gets them: where the fill makes none, those of the latest chunk come first.
void keep_lists(trainer::Executor& executor, const ModelShape& shape, const RunConfiguration& run,
                PageListsByLayer& lists) {
    const schedule::StepShape step(shape, run);
    lists.assign(shape.layers, std::vector<std::int32_t>(step.listed_pages() * run.top_k));
    executor.on_lists([&lists, first = step.first_listed_page()](const trainer::GroupLists& group) {
        std::copy(group.lists.begin(), group.lists.end(),
                  lists[group.layer].begin() + (group.query_page - first) * group.length);
    });
}

template <class T>
struct Found {
    CudaOutcome outcome;
    PageListsByLayer lists;
};

template <class T>
Found<T> run_with_lists(const ModelShape& shape, const RunConfiguration& run, const std::vector<double>& weights,
                        const TestSequence& sequence) {
    const schedule::Plan plan = schedule::make_plan(shape, run);
    trainer::CudaBackend<T> backend(plan);
    set_weights(backend, weights);
    trainer::Executor executor(plan, backend);
    const std::vector<trainer::SequenceView> views = {sequence.view()};
    Found<T> found;
    keep_lists(executor, shape, run, found.lists);
    found.outcome.result = executor.compute_gradients(views, {});
    found.outcome.gradients = values_of<double>(backend, &trainer::Backend::gradient);
    for (int tier = 0; tier < kTiers; ++tier) {
        CHECK(backend.touched_bytes(static_cast<Tier>(tier)) <= plan.arena_bytes[tier]);
    }
    return found;
}

OracleResult oracle_over(const ModelShape& shape, const RunConfiguration& run, const std::vector<double>& weights,
                         const TestSequence& sequence, DType type, const PageListsByLayer* lists) {
    const OracleTopK top_k{run.chunk_tokens, run.page_tokens, run.top_k, lists};
    const std::vector<trainer::SequenceView> views = {sequence.view()};
    return oracle_step(shape, trainer::ParameterLayout(shape), weights, views, type, &top_k);
}

// Pages of lists of `length` that the other's list has not.
std::int64_t pages_that_differ(const PageListsByLayer& a, const PageListsByLayer& b, std::int64_t length) {
    std::int64_t count = 0;
    REQUIRE(a.size() == b.size());
    for (std::size_t layer = 0; layer < a.size(); ++layer) {
        REQUIRE(a[layer].size() == b[layer].size());
        for (auto list = a[layer].begin(), other = b[layer].begin(); list != a[layer].end();
             list += length, other += length) {
            count += std::count_if(list, list + length,
                                   [&](std::int32_t page) { return !std::binary_search(other, other + length, page); });
        }
    }
    return count;
}

void check_fp32(const Paged& paged, const RunConfiguration& run) {
    CAPTURE(paged.context);
    CAPTURE(paged.page);
    const ModelShape shape = gpu_shape();
    const trainer::ParameterLayout layout(shape);
    const auto weights = bf16_weights(layout);
    const TestSequence sequence = random_sequence(run.context_tokens, shape.vocab, 7, 0.1);
    REQUIRE(schedule::StepShape(shape, run).selects());
    const auto found = run_with_lists<float>(shape, run, weights, sequence);
    const auto exact = oracle_over(shape, run, weights, sequence, DType::kF64, &found.lists);
    CHECK(found.outcome.result.loss == doctest::Approx(exact.loss).epsilon(1e-5));
    const std::vector<double> errors = relative_errors(layout, found.outcome.gradients, exact.gradients);
    for (std::size_t i = 0; i < errors.size(); ++i) {
        CAPTURE(layout.parameters()[i].name);
        CHECK(errors[i] <= kFp32Tolerance);
    }
    if (run.attention == AttentionMode::kTopK) {
        const auto selected = oracle_over(shape, run, weights, sequence, DType::kF64, nullptr);
        const std::int64_t others = pages_that_differ(found.lists, selected.lists, run.top_k);
        MESSAGE("context ", run.context_tokens, ": ", others, " pages differ from float64's, whose least gap is ",
                selected.least_score_gap);
        CHECK((others == 0 || selected.least_score_gap < kFp32Gap));
        CHECK(others <= 2);
    }
}

TEST_CASE("fp32: gradients over lists are those of autograd over the same ones, lists those of float64") {
    for (const Paged& paged : kSmallPages) {
        check_fp32(paged, paged.run(DType::kF32));
        check_fp32(paged, offloaded(paged.run(DType::kF32), Keep::kNone));
        check_fp32(paged, offloaded(paged.run(DType::kF32), Keep::kInputAndOutput));
        check_fp32(paged, offloaded(paged.run(DType::kF32, AttentionMode::kRandom), Keep::kOutput));
    }
    check_fp32(kWholePages[0], kWholePages[0].run(DType::kF32));
}

// Beside the CPU's step of the same plan but for the device: what both add up over the same lists in fp32.
TEST_CASE("fp32: the CPU's lists and gradients") {
    const Paged paged = kSmallPages[0];
    const ModelShape shape = gpu_shape();
    const trainer::ParameterLayout layout(shape);
    const auto weights = bf16_weights(layout);
    RunConfiguration run = offloaded(paged.run(DType::kF32), Keep::kNone);
    const std::vector<TestSequence> sequences = {random_sequence(run.context_tokens, shape.vocab, 7, 0.1)};
    const auto found = run_with_lists<float>(shape, run, weights, sequences[0]);
    run.device = DeviceKind::kCpu;
    const auto cpu = run_step<float>(schedule::make_plan(shape, run), weights, sequences);
    CHECK(found.lists == cpu.lists);
    const std::vector<double> expected(cpu.gradients.begin(), cpu.gradients.end());
    for (const double error : relative_errors(layout, found.outcome.gradients, expected)) {
        CHECK(error <= 2 * kFp32Tolerance);  // each is within one of float64's
    }
}

void check_bf16(const ModelShape& shape, const RunConfiguration& run) {
    CAPTURE(run.context_tokens);
    CAPTURE(run.page_tokens);
    CAPTURE(shape.head_dim);
    CAPTURE(run.deterministic);
    const trainer::ParameterLayout layout(shape);
    const auto weights = bf16_weights(layout);
    const TestSequence sequence = random_sequence(run.context_tokens, shape.vocab, 7, 0.1);
    const auto found = run_with_lists<BFloat16>(shape, run, weights, sequence);
    const auto exact = oracle_over(shape, run, weights, sequence, DType::kF64, &found.lists);
    const auto torch = oracle_over(shape, run, weights, sequence, DType::kBF16, &found.lists);
    const double worst = check_beside_torch(layout, found.outcome.gradients, torch.gradients, exact.gradients);
    MESSAGE("context ", run.context_tokens, ", pages of ", run.page_tokens, ": bf16 error at most ", worst,
            " of PyTorch's over the same lists");
}

TEST_CASE("bf16: within 1.5 of PyTorch's error over the same lists, by plain kernels and by those for sm_90a") {
    for (const Paged& paged : kSmallPages) {
        check_bf16(gpu_shape(), offloaded(paged.run(DType::kBF16), Keep::kNone));
    }
    for (const Paged& paged : {kWholePages[0], kWholePages[1], kOwnPages[0], kOwnPages[1]}) {
        RunConfiguration run = paged.run(DType::kBF16);
        check_bf16(gpu_shape(), run);
        check_bf16(gpu_shape(), offloaded(run, Keep::kNone));
        check_bf16(gpu_shape(), offloaded(run, Keep::kInputAndOutput));
        check_bf16(gpu_shape(), paged.run(DType::kBF16, AttentionMode::kRandom));
        run.deterministic = true;
        check_bf16(gpu_shape(), run);
    }
    ModelShape wide = gpu_shape();
    wide.query_heads = 7;
    wide.kv_heads = 1;
    wide.head_dim = 128;
    wide.qk_norm = wide.qkv_bias = true;
    check_bf16(wide, offloaded(kWholePages[0].run(DType::kBF16), Keep::kOutput));
}

// The schedule is the dense one.
TEST_CASE("with K at least the pages of the history: the dense step's bits") {
    const RunConfiguration cuts[] = {gpu_run(243, 64, DType::kF32), KernelCut{243, 64}.run(),
                                     KernelCut{1'100, 256, AttentionKernels::kOwn}.run()};
    for (const RunConfiguration& cut : cuts) {
        const DType type = cut.compute;
        const ModelShape shape = gpu_shape();
        const auto weights = bf16_weights(trainer::ParameterLayout(shape));
        const std::vector<TestSequence> sequences = {random_sequence(cut.context_tokens, shape.vocab, 7, 0.1)};
        RunConfiguration dense = offloaded(cut, Keep::kNone);
        dense.deterministic = true;
        dense.window_tokens = 13 * dense.page_tokens;
        const RunConfiguration top_k = with_pages(dense, AttentionMode::kTopK, 12, 13);
        const auto gradients_of = [&](const RunConfiguration& run) {
            const schedule::Plan plan = schedule::make_plan(shape, run);
            return type == DType::kF32 ? run_cuda_step<float>(plan, weights, sequences).gradients
                                       : run_cuda_step<BFloat16>(plan, weights, sequences).gradients;
        };
        CHECK(same_bits(gradients_of(top_k), gradients_of(dense)));
    }
}

template <class T>
void check_placements(const Paged& paged, DType type, int placements) {
    const ModelShape shape = gpu_shape();
    const auto weights = bf16_weights(trainer::ParameterLayout(shape));
    const std::vector<TestSequence> sequences = {random_sequence(paged.context, shape.vocab, 5, 0.1),
                                                 random_sequence(paged.context - paged.chunk - 7, shape.vocab, 6)};
    RunConfiguration run = paged.run(type);
    run.deterministic = true;
    const CudaOutcome expected = run_cuda_step<T>(schedule::make_plan(shape, run), weights, sequences);
    const std::vector<Way> ways = all_ways();
    std::mt19937_64 random(21);
    for (int i = 0; i < placements; ++i) {
        const Way& way = ways[random() % ways.size()];
        CAPTURE(to_text(way));
        RunConfiguration placed = run;
        placed.offload = way.offload;
        placed.keep = way.keep;
        placed.held_chunks = way.held_chunks;
        placed.kept_pages = way.kept_pages;
        if (way.offload == Offload::kHost) {
            placed.hbm_pages.mode = HbmPages::Mode::kRing;
        }
        trainer::CudaBackendOptions options;
        if (i % 2 == 1) {
            options.streams.stress_seed = i;
        }
        const schedule::Plan plan = schedule::make_plan(shape, placed);
        const CudaOutcome found = run_cuda_step<T>(plan, weights, sequences, std::move(options));
        CHECK(same_bits(found.gradients, expected.gradients));
        CHECK(found.result.loss == expected.result.loss);
        for (int tier = 0; tier < kTiers; ++tier) {
            CHECK(found.touched_bytes[tier] <= plan.arena_bytes[tier]);
        }
    }
}

TEST_CASE("deterministic: offloaded, kept, held, delayed at random, or not, the same bits") {
    check_placements<float>(kSmallPages[0], DType::kF32, 10);
    check_placements<BFloat16>(kSmallPages[2], DType::kBF16, 6);
    check_placements<BFloat16>(kWholePages[0], DType::kBF16, 6);
    check_placements<BFloat16>(kOwnPages[0], DType::kBF16, 6);
}

// A loss is off by what its logits are off, which a few 1e-6 of some 10 are.
void check_evaluation(const Paged& paged, AttentionMode mode) {
    CAPTURE(paged.context);
    const ModelShape shape = gpu_shape();
    RunConfiguration run = offloaded(paged.run(DType::kF32, mode), Keep::kNone);
    run.forward_only = true;
    run.optimizer = false;
    const auto weights = bf16_weights(trainer::ParameterLayout(shape));
    const TestSequence sequence = random_sequence(run.context_tokens, shape.vocab, 7, 0.1);
    const schedule::Plan plan = schedule::make_plan(shape, run);
    trainer::CudaBackend<float> backend(plan);
    set_weights(backend, weights);
    trainer::Executor executor(plan, backend);
    PageListsByLayer lists;
    keep_lists(executor, shape, run, lists);
    const std::vector<double> found = executor.evaluate(sequence.view()).token_losses;
    const OracleTopK top_k{run.chunk_tokens, run.page_tokens, run.top_k, &lists};
    const std::vector<double> expected =
        oracle_losses(shape, trainer::ParameterLayout(shape), weights, sequence.view(), &top_k);
    REQUIRE(found.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        worst = std::max(worst, std::abs(found[i] - expected[i]));
    }
    MESSAGE("losses are off by ", worst, " at most");
    CHECK(worst <= kFp32Tolerance);
}

TEST_CASE("fp32: an evaluation's losses over lists") {
    for (const AttentionMode mode : {AttentionMode::kTopK, AttentionMode::kRandom}) {
        check_evaluation(kSmallPages[0], mode);
        check_evaluation(kWholePages[0], mode);
    }
}

TEST_CASE("no shape of a step with lists is left to the step") {
    const ModelShape shape = gpu_shape();
    for (const AttentionMode mode : {AttentionMode::kTopK, AttentionMode::kRandom}) {
        const RunConfiguration run = offloaded(kWholePages[1].run(DType::kBF16, mode), Keep::kNone);
        const schedule::Plan plan = schedule::make_plan(shape, run);
        trainer::CudaBackend<BFloat16> backend(plan);
        const std::int64_t prepared = backend.library_plans();
        set_weights(backend, bf16_weights(backend.layout()));
        trainer::Executor executor(plan, backend);
        const TestSequence sequence = random_sequence(run.context_tokens, shape.vocab, 1, 0.1);
        const std::vector<trainer::SequenceView> views = {sequence.view()};
        CHECK(std::isfinite(executor.compute_gradients(views, {}).loss));
        CHECK(backend.library_plans() == prepared);
    }
}

}  // namespace
}  // namespace oomb::testing
