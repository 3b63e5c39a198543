#include "trainer/weights/parameters.hpp"

#include <doctest/doctest.h>

#include <set>

namespace oomb::trainer {
namespace {

ModelShape small_shape() {
    ModelShape shape;
    shape.layers = 2;
    shape.hidden = 12;
    shape.query_heads = 3;
    shape.kv_heads = 1;
    shape.head_dim = 8;
    shape.ffn = 20;
    shape.vocab = 50;
    return shape;
}

std::vector<std::string> names_of(const ModelShape& shape) {
    std::vector<std::string> names;
    for (const ParameterInfo& parameter : parameters_of(shape)) {
        names.push_back(parameter.name);
    }
    return names;
}

std::int64_t total_elements(const ModelShape& shape) {
    std::int64_t total = 0;
    for (const ParameterInfo& parameter : parameters_of(shape)) {
        total += parameter.elements;
    }
    return total;
}

}  // namespace

TEST_CASE("a Llama-like model lists embedding, layers, norm and head in order") {
    const std::vector<std::string> names = names_of(small_shape());
    REQUIRE(names.size() == 1 + 2 * 9 + 2);
    CHECK(names.front() == "model.embed_tokens.weight");
    const std::vector<std::string> layer(names.begin() + 10, names.begin() + 19);
    CHECK(layer == std::vector<std::string>{
                       "model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
                       "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight",
                       "model.layers.1.self_attn.o_proj.weight", "model.layers.1.post_attention_layernorm.weight",
                       "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight",
                       "model.layers.1.mlp.down_proj.weight"});
    CHECK(names[19] == "model.norm.weight");
    CHECK(names[20] == "lm_head.weight");
}

TEST_CASE("bias, Q/K norm, output bias and tied embeddings add and remove parameters") {
    ModelShape shape = small_shape();
    shape.qkv_bias = true;
    shape.qk_norm = true;
    shape.output_bias = true;
    shape.tied_embeddings = true;
    const std::vector<std::string> names = names_of(shape);
    CHECK(names.size() == 1 + 2 * 15 + 1);
    const std::set<std::string> set(names.begin(), names.end());
    CHECK(set.size() == names.size());
    for (const char* name : {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias",
                             "self_attn.q_norm.weight", "self_attn.k_norm.weight", "self_attn.o_proj.bias"}) {
        CHECK(set.contains(std::string("model.layers.0.") + name));
    }
    CHECK_FALSE(set.contains("lm_head.weight"));
}

TEST_CASE("shapes are [outputs, inputs], and only matrices decay") {
    ModelShape shape = small_shape();
    shape.qkv_bias = true;
    shape.qk_norm = true;
    for (const ParameterInfo& parameter : parameters_of(shape)) {
        CAPTURE(parameter.name);
        CHECK(parameter.decays == (parameter.shape.size() == 2));
        std::int64_t elements = 1;
        for (const std::int64_t size : parameter.shape) {
            elements *= size;
        }
        CHECK(parameter.elements == elements);
        CHECK((parameter.layer >= 0) == (parameter.name.find("layers.") != std::string::npos));
        if (parameter.kind == ParameterKind::kQWeight) {
            CHECK(parameter.shape == std::vector<std::int64_t>{24, 12});
        }
        if (parameter.kind == ParameterKind::kOWeight) {
            CHECK(parameter.shape == std::vector<std::int64_t>{12, 24});
        }
        if (parameter.kind == ParameterKind::kDownWeight) {
            CHECK(parameter.shape == std::vector<std::int64_t>{12, 20});
        }
        if (parameter.kind == ParameterKind::kKNorm) {
            CHECK(parameter.shape == std::vector<std::int64_t>{8});
        }
    }
}

TEST_CASE("published parameter counts are met") {
    ModelShape smollm;  // SmolLM2-135M: 134,515,008 parameters
    smollm.layers = 30;
    smollm.hidden = 576;
    smollm.query_heads = 9;
    smollm.kv_heads = 3;
    smollm.head_dim = 64;
    smollm.ffn = 1536;
    smollm.vocab = 49152;
    smollm.tied_embeddings = true;
    CHECK(total_elements(smollm) == 134515008);

    ModelShape qwen;  // Qwen2.5-7B: 7,615,616,512 parameters
    qwen.layers = 28;
    qwen.hidden = 3584;
    qwen.query_heads = 28;
    qwen.kv_heads = 4;
    qwen.head_dim = 128;
    qwen.ffn = 18944;
    qwen.vocab = 152064;
    qwen.qkv_bias = true;
    CHECK(total_elements(qwen) == 7615616512);
}

}  // namespace oomb::trainer
