#include "trainer/weights/parameters.hpp"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <utility>

namespace oomb::trainer {
namespace {

class ParameterList {
  public:
    void add(ParameterKind kind, std::string name, std::vector<std::int64_t> shape, std::int64_t layer = -1) {
        const std::int64_t elements =
            std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
        list_.push_back({.name = std::move(name),
                         .shape = std::move(shape),
                         .layer = layer,
                         .kind = kind,
                         .elements = elements,
                         .decays = !is_norm(kind) && !is_bias(kind)});
    }

    void add_layer(const ModelShape& shape, std::int64_t layer) {
        const std::string prefix = fmt::format("model.layers.{}.", layer);
        const auto put = [&](ParameterKind kind, const char* suffix, std::vector<std::int64_t> sizes) {
            add(kind, prefix + suffix, std::move(sizes), layer);
        };
        put(ParameterKind::kInputNorm, "input_layernorm.weight", {shape.hidden});
        put(ParameterKind::kQWeight, "self_attn.q_proj.weight", {shape.query_width(), shape.hidden});
        put(ParameterKind::kKWeight, "self_attn.k_proj.weight", {shape.kv_width(), shape.hidden});
        put(ParameterKind::kVWeight, "self_attn.v_proj.weight", {shape.kv_width(), shape.hidden});
        if (shape.qkv_bias) {
            put(ParameterKind::kQBias, "self_attn.q_proj.bias", {shape.query_width()});
            put(ParameterKind::kKBias, "self_attn.k_proj.bias", {shape.kv_width()});
            put(ParameterKind::kVBias, "self_attn.v_proj.bias", {shape.kv_width()});
        }
        if (shape.qk_norm) {
            put(ParameterKind::kQNorm, "self_attn.q_norm.weight", {shape.head_dim});
            put(ParameterKind::kKNorm, "self_attn.k_norm.weight", {shape.head_dim});
        }
        put(ParameterKind::kOWeight, "self_attn.o_proj.weight", {shape.hidden, shape.query_width()});
        if (shape.output_bias) {
            put(ParameterKind::kOBias, "self_attn.o_proj.bias", {shape.hidden});
        }
        put(ParameterKind::kPostNorm, "post_attention_layernorm.weight", {shape.hidden});
        put(ParameterKind::kGateWeight, "mlp.gate_proj.weight", {shape.ffn, shape.hidden});
        put(ParameterKind::kUpWeight, "mlp.up_proj.weight", {shape.ffn, shape.hidden});
        put(ParameterKind::kDownWeight, "mlp.down_proj.weight", {shape.hidden, shape.ffn});
    }

    std::vector<ParameterInfo> take() { return std::move(list_); }

  private:
    std::vector<ParameterInfo> list_;
};

}  // namespace

bool is_norm(ParameterKind kind) {
    switch (kind) {
        case ParameterKind::kInputNorm:
        case ParameterKind::kQNorm:
        case ParameterKind::kKNorm:
        case ParameterKind::kPostNorm:
        case ParameterKind::kFinalNorm:
            return true;
        default:
            return false;
    }
}

bool is_bias(ParameterKind kind) {
    switch (kind) {
        case ParameterKind::kQBias:
        case ParameterKind::kKBias:
        case ParameterKind::kVBias:
        case ParameterKind::kOBias:
            return true;
        default:
            return false;
    }
}

std::vector<ParameterInfo> parameters_of(const ModelShape& shape) {
    ParameterList list;
    list.add(ParameterKind::kEmbedding, "model.embed_tokens.weight", {shape.vocab, shape.hidden});
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
        list.add_layer(shape, layer);
    }
    list.add(ParameterKind::kFinalNorm, "model.norm.weight", {shape.hidden});
    if (!shape.tied_embeddings) {
        list.add(ParameterKind::kHead, std::string(kHeadName), {shape.vocab, shape.hidden});
    }
    return list.take();
}

}  // namespace oomb::trainer
