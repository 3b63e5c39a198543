#pragma once
// The trainable parameters of a model, in one fixed order, under their Hugging Face names.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/model_shape.hpp"

namespace oomb::trainer {

// In the order in which they appear: the embedding, the layers (input norm ... down weight), the final norm, the head.
enum class ParameterKind : std::uint8_t {
    kEmbedding,   // [vocab, hidden]; also the head's weight when the embeddings are tied
    kInputNorm,   // [hidden]
    kQWeight,     // [query_width, hidden]
    kKWeight,     // [kv_width, hidden]
    kVWeight,     // [kv_width, hidden]
    kQBias,       // [query_width], with qkv_bias
    kKBias,       // [kv_width], with qkv_bias
    kVBias,       // [kv_width], with qkv_bias
    kQNorm,       // [head_dim], with qk_norm
    kKNorm,       // [head_dim], with qk_norm
    kOWeight,     // [hidden, query_width]
    kOBias,       // [hidden], with output_bias
    kPostNorm,    // [hidden], before the MLP
    kGateWeight,  // [ffn, hidden]
    kUpWeight,    // [ffn, hidden]
    kDownWeight,  // [hidden, ffn]
    kFinalNorm,   // [hidden]
    kHead,        // [vocab, hidden], unless tied
};

// A weight's shape is [outputs, inputs], row-major: y = x W^T + b.
struct ParameterInfo {
    std::string name;  // "model.layers.3.self_attn.q_proj.weight"
    std::vector<std::int64_t> shape;
    std::int64_t layer = -1;  // -1 outside the layers
    ParameterKind kind = ParameterKind::kEmbedding;
    std::int64_t elements = 0;
    bool decays = true;  // takes part in weight decay: no norm and no bias does
};

// Name of the head's weight; in a tied model no parameter has it.
inline constexpr std::string_view kHeadName = "lm_head.weight";

bool is_norm(ParameterKind kind);
bool is_bias(ParameterKind kind);
// All that is no matrix.
inline bool is_vector(ParameterKind kind) {
    return is_norm(kind) || is_bias(kind);
}

// Every parameter of the model once; tied embeddings have no head of their own.
std::vector<ParameterInfo> parameters_of(const ModelShape& shape);

}  // namespace oomb::trainer
