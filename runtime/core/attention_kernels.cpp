#include "runtime/core/attention_kernels.hpp"

#include "runtime/core/error.hpp"

namespace oomb {
namespace {

// The rule of `--attention-kernels auto`, for runs that our own kernels can compute: `return run.deterministic;` takes
// them where cuDNN is slow and wants gigabytes, `return true;` everywhere.
bool auto_takes_own_kernels(const RunConfiguration& /*run*/) {
    return false;
}

bool own_head_dim(std::int64_t head_dim) {
    return head_dim == 64 || head_dim == 128;
}

}  // namespace

bool chooses_attention_kernels(const RunConfiguration& run) {
    return run.device == DeviceKind::kCuda && run.compute == DType::kBF16;
}

bool own_kernels_take(const RunConfiguration& run, std::int64_t head_dim) {
    return chooses_attention_kernels(run) && run.page_tokens == kOwnKernelsPageTokens && own_head_dim(head_dim);
}

AttentionKernels decided_attention_kernels(const RunConfiguration& run, std::int64_t head_dim) {
    if (run.attention_kernels != AttentionKernels::kAuto || !chooses_attention_kernels(run)) {
        return run.attention_kernels;
    }
    const bool own = own_kernels_take(run, head_dim) && auto_takes_own_kernels(run);
    return own ? AttentionKernels::kOwn : AttentionKernels::kCudnn;
}

void check_attention_kernels(const RunConfiguration& run, std::int64_t head_dim) {
    if (run.attention_kernels == AttentionKernels::kAuto) {
        return;
    }
    const std::string_view asked = name_of(run.attention_kernels);
    if (run.device == DeviceKind::kCpu) {
        fail<UsageError>(
            "--attention-kernels {} with --device cpu: allowed is auto, for the CPU has one kind of kernels; leave it "
            "out, or take --device cuda",
            asked);
    }
    if (run.compute != DType::kBF16) {
        fail<UsageError>(
            "--attention-kernels {} with --dtype {}: allowed is auto, for both kinds compute in bf16 alone; leave it "
            "out, or take --dtype bf16",
            asked, name_of(run.compute));
    }
    if (run.attention_kernels != AttentionKernels::kOwn) {
        return;
    }
    if (run.page_tokens != kOwnKernelsPageTokens) {
        fail<UsageError>(
            "--attention-kernels own with --page-tokens {}: allowed are pages of {} tokens, which are these kernels' "
            "tiles; take --page-tokens {}, or --attention-kernels auto or cudnn",
            run.page_tokens, kOwnKernelsPageTokens, kOwnKernelsPageTokens);
    }
    if (head_dim != 0 && !own_head_dim(head_dim)) {
        fail<UsageError>(
            "--attention-kernels own: the model's heads have {} elements, allowed are 64 or 128; take "
            "--attention-kernels auto or cudnn",
            head_dim);
    }
}

}  // namespace oomb
