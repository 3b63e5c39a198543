#include "kernels/cuda/hopper/attention.hpp"

#include <limits>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/hopper/backward_kernels.hpp"
#include "kernels/cuda/hopper/forward_kernels.hpp"
#include "kernels/cuda/hopper/walk.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cuda::hopper {
namespace {

template <class... P>
bool on_16_bytes(const P*... pointers) {
    return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// Of a window that the kernels read page by page; rows and keys are counted in 32 bits.
bool takes_window(const paging::PageView<const BFloat16>& kv, std::int64_t queries) {
    constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max() - 2 * kPageTokens;
    return queries <= kMostTokens && (kv.head_dim == 64 || kv.head_dim == 128) && kv.page_tokens == kPageTokens &&
           kv.tokens > 0 && kv.tokens <= kMostTokens && on_16_bytes(kv.k_slab, kv.v_slab);
}

void require_heads(const char* kernel, std::int64_t query_heads, std::int64_t kv_heads) {
    require_operand(kv_heads > 0 && query_heads % kv_heads == 0, kernel, "query_heads", query_heads,
                    "a multiple of the KV heads");
}

// What cannot go to the plain kernel for want of its operands there.
void refuse(const char* kernel, const char* what, const paging::PageView<const BFloat16>& kv, double scale) {
    fail<InternalError>(
        "{}: {} for {} keys in pages of {}, head_dim {}, scale {}: allowed are pages of {}, head_dim 64 or 128, a "
        "positive scale, data on 16 bytes, and at least one key",
        kernel, what, kv.tokens, kv.page_tokens, kv.head_dim, scale, kPageTokens);
}

constexpr double kLog2E = 1.44269504088896340736;

template <int kHeadDim>
void launch_forward(ForwardKernel kernel, const ForwardOperands& op, cudaStream_t stream) {
    switch (kernel) {
        case ForwardKernel::kSimple:
            return launch_simple<kHeadDim>(op, stream);
        case ForwardKernel::kSpecialised:
            return launch_specialised<kHeadDim>(op, stream);
    }
}

template <int kHeadDim>
void launch_backward(BackwardKernel kernel, const BackwardOperands& op, cudaStream_t stream) {
    if (op.turns != nullptr) {
        return launch_backward<kHeadDim, BackwardStep::kOrdered>(op, stream);
    }
    switch (kernel) {
        case BackwardKernel::kSimple:
            return launch_backward<kHeadDim, BackwardStep::kSimple>(op, stream);
        case BackwardKernel::kSpecialised:
            return launch_backward<kHeadDim, BackwardStep::kSpecialised>(op, stream);
    }
}

}  // namespace

bool takes(const AttentionForward<BFloat16>& args) {
    return takes_window(args.kv, args.tokens) && args.scale > 0 && on_16_bytes(args.q, args.o_part);
}

void attention_forward(const AttentionForward<BFloat16>& args, const ForwardOptions& options, cudaStream_t stream) {
    require_heads(kForwardName, args.query_heads, args.kv.kv_heads);
    if (!takes(args)) {
        if (options.lists.pages != nullptr || options.merge) {
            refuse(kForwardName, options.merge ? "no merge" : "no page lists", args.kv, args.scale);
        }
        return cuda::attention_forward(args, stream);
    }
    if (args.tokens == 0) {
        return;
    }
    ForwardOperands op;
    op.args = args;
    op.lists = options.lists;
    op.merge = options.merge;
    op.scale_log2 = static_cast<float>(args.scale * kLog2E);
    op.pages = page_maps(args.kv);
    if (args.kv.head_dim == 64) {
        launch_forward<64>(options.kernel, op, stream);
    } else {
        launch_forward<128>(options.kernel, op, stream);
    }
}

bool takes(const AttentionBackward<BFloat16>& args) {
    return takes_window(args.kv, args.tokens) && args.scale > 0 && args.tokens > 0 &&
           on_16_bytes(args.q, args.d_o, args.dq, args.d_kv.k_slab, args.d_kv.v_slab) &&
           args.d_kv.page_tokens == args.kv.page_tokens;
}

std::int64_t backward_turns(std::int64_t tokens, std::int64_t query_heads) {
    return turns_of(tokens, query_heads) + 1;
}

void attention_backward(const AttentionBackward<BFloat16>& args, const BackwardOptions& options, cudaStream_t stream) {
    require_heads(kBackwardName, args.query_heads, args.kv.kv_heads);
    if (!takes(args)) {
        if (options.readers.offsets != nullptr) {
            refuse(kBackwardName, "no page lists", args.kv, args.scale);
        }
        return cuda::attention_backward(args, stream);
    }
    const bool ordered_lists = options.turns != nullptr && options.readers.offsets != nullptr;
    require(!ordered_lists || options.lists.pages != nullptr,
            "{}: an ordered dq over lists of pages wants the lists beside their readers", kBackwardName);
    const char* same = "that of the K/V window";
    require_operand(args.d_kv.kv_heads == args.kv.kv_heads, kBackwardName, "d_kv.kv_heads", args.d_kv.kv_heads, same);
    require_operand(args.d_kv.head_dim == args.kv.head_dim, kBackwardName, "d_kv.head_dim", args.d_kv.head_dim, same);
    require_operand(args.d_kv.tokens == args.kv.tokens, kBackwardName, "d_kv.tokens", args.d_kv.tokens, same);
    BackwardOperands op;
    op.args = args;
    op.readers = options.readers;
    op.lists = options.lists;
    op.turns = options.turns;
    op.scale = static_cast<float>(args.scale);
    op.scale_log2 = static_cast<float>(args.scale * kLog2E);
    op.pages = page_maps(args.kv);
    if (args.kv.head_dim == 64) {
        launch_backward<64>(options.kernel, op, stream);
    } else {
        launch_backward<128>(options.kernel, op, stream);
    }
}

}  // namespace oomb::kernels::cuda::hopper
