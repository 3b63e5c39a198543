#include "runtime/core/attention_kernels.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"

namespace oomb {
namespace {

RunConfiguration on_cuda(AttentionKernels kernels = AttentionKernels::kAuto) {
    RunConfiguration run;
    run.context_tokens = 4096;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.attention_kernels = kernels;
    return run;
}

}  // namespace

TEST_CASE("own kernels take bf16 on CUDA, pages of 128 tokens, heads of 64 and 128") {
    CHECK(own_kernels_take(on_cuda(), 64));
    CHECK(own_kernels_take(on_cuda(), 128));
    CHECK_FALSE(own_kernels_take(on_cuda(), 96));
    CHECK_FALSE(own_kernels_take(on_cuda(), 256));
    RunConfiguration run = on_cuda();
    run.page_tokens = 64;
    CHECK_FALSE(own_kernels_take(run, 128));
    run = on_cuda();
    run.compute = DType::kF32;
    CHECK_FALSE(own_kernels_take(run, 128));
    run = on_cuda();
    run.device = DeviceKind::kCpu;
    CHECK_FALSE(own_kernels_take(run, 128));
}

TEST_CASE("auto is cuDNN, deterministic or not; where there is one kind of kernels it stays auto") {
    RunConfiguration run = on_cuda();
    for (const bool deterministic : {false, true}) {
        run.deterministic = deterministic;
        for (const std::int64_t head_dim : {64, 80, 128}) {
            CHECK(decided_attention_kernels(run, head_dim) == AttentionKernels::kCudnn);
        }
    }
    run.attention_kernels = AttentionKernels::kOwn;
    CHECK(decided_attention_kernels(run, 128) == AttentionKernels::kOwn);
    run = on_cuda();
    run.compute = DType::kF32;
    CHECK(decided_attention_kernels(run, 128) == AttentionKernels::kAuto);
    run = on_cuda();
    run.device = DeviceKind::kCpu;
    CHECK(decided_attention_kernels(run, 128) == AttentionKernels::kAuto);
}

TEST_CASE("what is asked for and can't be had is refused: what was found, what is allowed, what to change") {
    const auto refused = [](const RunConfiguration& run, const char* words) {
        CHECK_THROWS_WITH_AS(validate(run), doctest::Contains(words), UsageError);
    };
    CHECK_NOTHROW(validate(on_cuda(AttentionKernels::kOwn)));
    CHECK_NOTHROW(validate(on_cuda(AttentionKernels::kCudnn)));
    for (const AttentionKernels kernels : {AttentionKernels::kOwn, AttentionKernels::kCudnn}) {
        const std::string asked = fmt::format("--attention-kernels {} with ", name_of(kernels));
        RunConfiguration run = on_cuda(kernels);
        run.device = DeviceKind::kCpu;
        refused(run, (asked + "--device cpu: allowed is auto").c_str());
        run = on_cuda(kernels);
        run.compute = DType::kF32;
        refused(run, (asked + "--dtype fp32: allowed is auto").c_str());
    }
    RunConfiguration run = on_cuda(AttentionKernels::kOwn);
    run.page_tokens = 64;
    refused(run, "--attention-kernels own with --page-tokens 64: allowed are pages of 128 tokens");
    run.attention_kernels = AttentionKernels::kCudnn;
    CHECK_NOTHROW(validate(run));
    run = on_cuda(AttentionKernels::kOwn);
    CHECK_NOTHROW(check_attention_kernels(run, 128));
    CHECK_THROWS_WITH_AS(check_attention_kernels(run, 80), doctest::Contains("heads have 80 elements, allowed are 64"),
                         UsageError);
}

}  // namespace oomb
