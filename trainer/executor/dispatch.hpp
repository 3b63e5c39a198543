#pragma once
// From an operation's kind to the member of a backend that carries it out. Every backend has these members.

#include "runtime/core/error.hpp"
#include "runtime/issue/issued_operation.hpp"

namespace oomb::trainer {

// A backend makes it a friend.
struct Dispatch {
    template <class Ops>
    static bool linear(Ops& ops, const issue::IssuedOperation& issued) {
        using schedule::Kind;
        switch (issued.operation.id.kind) {
            case Kind::kLinearQkv:
                return ops.linear_qkv(issued), true;
            case Kind::kLinearOutput:
                return ops.linear_output(issued), true;
            case Kind::kLinearGateUp:
                return ops.linear_gate_up(issued), true;
            case Kind::kLinearDown:
                return ops.linear_down(issued), true;
            case Kind::kLinearHead:
                return ops.linear_head(issued), true;
            case Kind::kLinearQkvWeightGradient:
            case Kind::kLinearOutputWeightGradient:
            case Kind::kLinearGateUpWeightGradient:
            case Kind::kLinearDownWeightGradient:
            case Kind::kLinearHeadWeightGradient:
                return ops.linear_weight_gradient(issued), true;
            case Kind::kLinearQkvInputGradient:
            case Kind::kLinearOutputInputGradient:
            case Kind::kLinearGateUpInputGradient:
            case Kind::kLinearDownInputGradient:
            case Kind::kLinearHeadInputGradient:
                return ops.linear_input_gradient(issued), true;
            default:
                return false;
        }
    }

    template <class Ops>
    static bool pass(Ops& ops, const issue::IssuedOperation& issued) {
        using schedule::Kind;
        switch (issued.operation.id.kind) {
            case Kind::kZeroGradients:
                return ops.zero_gradients(issued), true;
            case Kind::kEmbedding:
                return ops.embedding(issued), true;
            case Kind::kEmbeddingBackward:
                return ops.embedding_backward(issued), true;
            case Kind::kInputNorm:
            case Kind::kPostNorm:
            case Kind::kFinalNorm:
                return ops.norm(issued), true;
            case Kind::kInputNormBackward:
            case Kind::kPostNormBackward:
            case Kind::kFinalNormBackward:
                return ops.norm_backward(issued), true;
            case Kind::kSwiglu:
                return ops.swiglu(issued), true;
            case Kind::kSwigluBackward:
                return ops.swiglu_backward(issued), true;
            case Kind::kCrossEntropy:
                return ops.cross_entropy(issued), true;
            case Kind::kGradientNorm:
                return ops.gradient_norm(issued), true;
            case Kind::kOptimizer:
                return ops.optimizer(issued), true;
            default:
                return false;
        }
    }

    template <class Ops>
    static bool attention(Ops& ops, const issue::IssuedOperation& issued) {
        using schedule::Kind;
        switch (issued.operation.id.kind) {
            case Kind::kRope:
                return ops.rope(issued), true;
            case Kind::kRopeBackward:
                return ops.rope_backward(issued), true;
            case Kind::kAttention:
                return ops.attention(issued), true;
            case Kind::kAttentionBackward:
                return ops.attention_backward(issued), true;
            case Kind::kMerge:
                return ops.merge(issued), true;
            case Kind::kFinishAttention:
                return ops.finish_attention(issued), true;
            case Kind::kAttentionDelta:
                return ops.attention_delta(issued), true;
            default:
                return false;
        }
    }

    // Of a backend that has top-K pages.
    template <class Ops>
    static bool selection(Ops& ops, const issue::IssuedOperation& issued) {
        if constexpr (requires { ops.select_pages(issued); }) {
            using schedule::Kind;
            switch (issued.operation.id.kind) {
                case Kind::kPageMeans:
                    return ops.page_means(issued), true;
                case Kind::kPageScores:
                    return ops.page_scores(issued), true;
                case Kind::kSelectPages:
                    return ops.select_pages(issued), true;
                case Kind::kStoreLists:
                    return ops.store_lists(issued), true;
                default:
                    return false;
            }
        }
        return false;
    }

    // Of a backend that measures recall.
    template <class Ops>
    static bool recall(Ops& ops, const issue::IssuedOperation& issued) {
        if constexpr (requires { ops.page_recall(issued); }) {
            using schedule::Kind;
            switch (issued.operation.id.kind) {
                case Kind::kPageMass:
                    return ops.page_mass(issued), true;
                case Kind::kPageRecall:
                    return ops.page_recall(issued), true;
                default:
                    return false;
            }
        }
        return false;
    }

    template <class Ops>
    static bool copy(Ops& ops, const issue::IssuedOperation& issued) {
        using schedule::Kind;
        switch (issued.operation.id.kind) {
            case Kind::kLoadTokens:
                return ops.load_tokens(issued), true;
            case Kind::kFetch:
            case Kind::kPrefetch:
            case Kind::kWriteBack:
                return ops.copy_pages(issued), true;
            case Kind::kKeepActivation:
            case Kind::kLoadActivation:
                return ops.copy_activation(issued), true;
            case Kind::kFetchState:
            case Kind::kStoreState:
                return ops.copy_state(issued), true;
            case Kind::kStoreLosses:
                return ops.store_losses(issued), true;
            case Kind::kRelease:
                return true;  // the frames are free, there is nothing to move
            default:
                return false;
        }
    }

    // Throws InternalError for a kind that has no member.
    template <class Ops>
    static void run(Ops& ops, const issue::IssuedOperation& issued) {
        require(linear(ops, issued) || pass(ops, issued) || attention(ops, issued) || selection(ops, issued) ||
                    recall(ops, issued) || copy(ops, issued),
                "backend: can't carry out {}", to_text(issued.operation.id));
    }
};

}  // namespace oomb::trainer
