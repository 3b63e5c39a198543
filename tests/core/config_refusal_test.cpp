// Configs that must be refused, each with what the message says.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "runtime/core/model_shape.hpp"
#include "tests/core/configs.hpp"
#include "tests/core/messages.hpp"

namespace oomb {

namespace {

struct Refused {
    std::string_view family;
    std::string_view changes;
    std::initializer_list<std::string_view> fragments;
};

template <class E, std::size_t kCount>
void check_refused(const Refused (&cases)[kCount]) {
    for (const Refused& refused : cases) {
        CAPTURE(refused.family);
        CAPTURE(refused.changes);
        const std::string text = test::changed(refused.family, refused.changes);
        const std::string message = test::message_of<E>([&] { parse_model_shape(text, "config.json"); });
        test::check_contains(message, {"config.json"});
        test::check_contains(message, refused.fragments);
    }
}

}  // namespace

TEST_CASE("what changes the mathematics is refused by its name") {
    const Refused cases[] = {
        {"llama", R"({"model_type": "mixtral"})", {"model_type", "\"mixtral\"", "llama, mistral, qwen2 and qwen3"}},
        {"llama", R"({"model_type": "qwen2_moe"})", {"\"qwen2_moe\""}},
        {"llama", R"({"architectures": ["LlamaForSequenceClassification"]})", {"architectures[0]", "Classification"}},
        {"llama", R"({"architectures": ["Qwen2ForCausalLM"]})", {"architectures[0]"}},
        {"llama", R"({"auto_map": {"AutoModel": "m.M"}})", {"auto_map", "trust_remote_code"}},
        {"llama", R"({"num_local_experts": 8})", {"num_local_experts: found 8", "mixture of experts"}},
        {"qwen3", R"({"num_experts": 128})", {"num_experts: found 128", "mixture of experts"}},
        {"qwen2", R"({"n_routed_experts": 64})", {"n_routed_experts", "mixture of experts"}},
        {"qwen3", R"({"moe_intermediate_size": 768})", {"moe_intermediate_size", "mixture of experts"}},
        {"qwen2",
         R"({"dual_chunk_attention_config": {"chunk_size": 262144}})",
         {"dual_chunk_attention_config", "dual chunk"}},
        {"llama", R"({"no_rope_layers": [1, 1, 0]})", {"no_rope_layers", "without RoPE"}},
        {"llama", R"({"no_rope_layer_interval": 4})", {"no_rope_layer_interval", "without RoPE"}},
        {"llama", R"({"partial_rotary_factor": 0.5})", {"partial_rotary_factor: found 0.5", "without RoPE"}},
        {"llama", R"({"rope_interleaved": true})", {"rope_interleaved", "interleaved"}},
        {"qwen2", R"({"use_mrope": true})", {"use_mrope"}},
        {"llama", R"({"hidden_act": "gelu"})", {"hidden_act: found \"gelu\"", "other than silu"}},
        {"llama", R"({"mlp_bias": true})", {"mlp_bias", "biases"}},
        {"mistral", R"({"attention_bias": true})", {"attention_bias", "Mistral has not"}},
        {"qwen2", R"({"attention_bias": false})", {"attention_bias", "Qwen2 always"}},
        {"llama", R"({"qk_norm": true})", {"qk_norm", "Qwen3"}},
        {"llama", R"({"quantization_config": {"quant_method": "gptq"}})", {"quantization_config", "quantised weights"}},
        {"llama", R"({"torch_dtype": "float8_e4m3fn"})", {"torch_dtype", "float8_e4m3fn", "bfloat16"}},
        {"llama", R"({"attn_logit_softcapping": 50.0})", {"attn_logit_softcapping", "soft-capped"}},
        {"llama", R"({"final_logit_softcapping": 30.0})", {"final_logit_softcapping", "soft-capped"}},
        {"llama", R"({"attention_dropout": 0.1})", {"attention_dropout", "dropout"}},
        {"llama", R"({"embedding_multiplier": 12.0})", {"embedding_multiplier", "scaled"}},
        {"llama", R"({"per_layer_config": {"0": {"num_key_value_heads": 1}}})", {"per_layer_config"}},
        {"llama", R"({"vision_config": {"depth": 2}})", {"vision_config", "other than text"}},
        {"llama", R"({"kv_lora_rank": 512})", {"kv_lora_rank", "latent"}},
    };
    check_refused<UnsupportedError>(cases);
}

TEST_CASE("a sliding window that the family has not, or of no length, is refused") {
    const Refused cases[] = {
        {"qwen2",
         R"({"layer_types": ["full_attention", "sliding_attention", "full_attention"]})",
         {"layer_types[1]", "no window is in use", "use_sliding_window true"}},
        {"qwen3",
         R"({"layer_types": ["sliding_attention", "full_attention", "full_attention"], "sliding_window": 8,
             "use_sliding_window": false})",
         {"layer_types[0]", "no window is in use"}},
        {"qwen3",
         R"({"layer_types": ["full_attention", "full_attention", "linear_attention"]})",
         {"layer_types[2]", "full attention"}},
        {"mistral",
         R"({"sliding_window": 4096, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})",
         {"layer_types[1]", "a window of 4096", "Mistral"}},
        {"mistral",
         R"({"layer_types": ["full_attention", "sliding_attention", "full_attention"]})",
         {"layer_types[1]", "none has a window"}},
        {"llama", R"({"sliding_window": 4096})", {"sliding_window: found 4096"}},
        {"llama", R"({"layer_types": ["full_attention", "sliding_attention", "full_attention"]})", {"layer_types[1]"}},
    };
    check_refused<UnsupportedError>(cases);
}

TEST_CASE("a number that cannot be is refused with what is allowed") {
    const Refused cases[] = {
        {"llama", R"({"model_type": "<absent>"})", {"model_type: missing"}},
        {"llama", R"({"model_type": 3})", {"model_type: found 3", "a string"}},
        {"llama",
         R"({"num_hidden_layers": "x"})",
         {"config.json: num_hidden_layers: found \"x\", expected a positive integer"}},
        {"llama", R"({"num_hidden_layers": 0})", {"num_hidden_layers: found 0", "positive integer"}},
        {"llama", R"({"num_hidden_layers": 1000000})", {"num_hidden_layers: found 1000000", "up to 65,536"}},
        {"llama", R"({"hidden_size": -64})", {"hidden_size: found -64"}},
        {"llama", R"({"hidden_size": 64.5})", {"hidden_size: found 64.5"}},
        {"llama", R"({"hidden_size": null})", {"hidden_size: found null"}},
        {"llama", R"({"hidden_size": "<absent>"})", {"hidden_size: missing"}},
        {"llama", R"({"intermediate_size": "<absent>"})", {"intermediate_size: missing"}},
        {"llama", R"({"vocab_size": 0})", {"vocab_size: found 0"}},
        {"llama", R"({"vocab_size": 18446744073709551615})", {"vocab_size: found 18446744073709551615"}},
        {"llama", R"({"num_attention_heads": "<absent>"})", {"num_attention_heads: missing"}},
        {"llama", R"({"num_key_value_heads": 3})", {"4 query heads", "3 key/value heads", "multiple"}},
        {"llama", R"({"num_key_value_heads": 0})", {"num_key_value_heads: found 0"}},
        {"llama", R"({"num_key_value_heads": 8})", {"4 query heads", "8 key/value heads"}},
        {"qwen2", R"({"num_key_value_heads": "<absent>"})", {"4 query heads", "32 key/value heads"}},
        {"llama", R"({"head_dim": 15})", {"head_dim is 15", "even"}},
        {"llama", R"({"head_dim": 0})", {"head_dim: found 0"}},
        {"llama", R"({"head_dim": null, "hidden_size": 66})", {"hidden_size 66", "num_attention_heads 4"}},
        {"llama", R"({"head_dim": null, "hidden_size": 2147483644})", {"536870911", "at most 65536"}},
        {"llama", R"({"max_position_embeddings": 0})", {"max_position_embeddings: found 0"}},
        {"llama", R"({"rms_norm_eps": -1e-5})", {"rms_norm_eps: found -1e-05", "from 0 to 1"}},
        {"llama", R"({"rms_norm_eps": "small"})", {"rms_norm_eps", "number"}},
        {"llama", R"({"tie_word_embeddings": "yes"})", {"tie_word_embeddings: found \"yes\"", "true or false"}},
        {"llama", R"({"attention_bias": 1})", {"attention_bias: found 1", "true or false"}},
        {"llama", R"({"torch_dtype": 16})", {"torch_dtype", "a string"}},
        {"llama", R"({"architectures": "LlamaForCausalLM"})", {"architectures", "an array"}},
        {"qwen2", R"({"layer_types": ["full_attention"]})", {"layer_types", "1 entries", "3 layers"}},
        {"qwen2", R"({"sliding_window": "wide"})", {"sliding_window: found \"wide\""}},
        {"mistral", R"({"sliding_window": 0})", {"sliding_window: found 0", "positive"}},
        {"qwen2", R"({"sliding_window": 0, "use_sliding_window": true})", {"sliding_window: found 0", "positive"}},
        {"qwen2", R"({"sliding_window": -4})", {"sliding_window: found -4"}},
    };
    check_refused<FileError>(cases);
}

TEST_CASE("a model too large for 64-bit byte counts is refused") {
    const Refused cases[] = {
        {"llama", R"({"hidden_size": 2147483647, "intermediate_size": 2147483647})", {"parameters"}},
        {"llama", R"({"hidden_size": 2147483647, "intermediate_size": 2147483647, "num_hidden_layers": 65536})", {}},
    };
    for (const Refused& refused : cases) {
        const std::string text = test::changed(refused.family, refused.changes);
        const auto message = test::message_of<UnsupportedError>([&] { parse_model_shape(text, "config.json"); });
        test::check_contains(message, {"parameters"});
    }
}

TEST_CASE("a RoPE that is not computed is refused by its name") {
    const Refused cases[] = {
        {"llama", R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})", {"rope_scaling", "\"dynamic\"", "yarn"}},
        {"llama", R"({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}})", {"\"longrope\""}},
        {"qwen2", R"({"rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}})", {"\"mrope\""}},
        {"llama", R"({"rope_parameters": {"rope_type": "proportional", "rope_theta": 10000.0}})", {"\"proportional\""}},
        {"llama",
         R"({"rope_parameters": {"full_attention": {"rope_theta": 1e4}, "sliding_attention": {"rope_theta": 1e4}}})",
         {"rope_parameters.full_attention", "each type of layer"}},
        {"llama",
         R"({"rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.25}})",
         {"rope_parameters.partial_rotary_factor", "0.25"}},
        {"llama", R"({"rope_scaling": {"factor": 4.0}})", {"rope_scaling.factor", "type default"}},
        {"llama",
         R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "llama_4_scaling_beta": 0.1}})",
         {"rope_scaling.llama_4_scaling_beta"}},
    };
    check_refused<UnsupportedError>(cases);
}

TEST_CASE("a RoPE that contradicts itself or lacks a number is refused") {
    const Refused cases[] = {
        {"llama",
         R"({"rope_theta": "<absent>", "rope_parameters": {"rope_type": "default"}})",
         {"rope_parameters: rope_theta: missing"}},
        {"llama", R"({"rope_theta": "<absent>", "rope_parameters": {}})", {"rope_parameters: rope_theta: missing"}},
        {"llama", R"({"rope_parameters": {"rope_theta": 5e5}})", {"rope_theta is 500000 here and 10000 outside"}},
        {"llama", R"({"rope_parameters": [1]})", {"rope_parameters: found [1]", "an object"}},
        {"llama", R"({"rope_scaling": "yarn"})", {"rope_scaling: found \"yarn\"", "an object"}},
        {"llama", R"({"rope_theta": 0})", {"rope_theta: found 0", "above 1"}},
        {"llama", R"({"rope_theta": -1e4})", {"rope_theta: found -10000.0"}},
        {"llama", R"({"rope_theta": 1e300})", {"rope_theta: found 1e+300"}},
        {"llama", R"({"rope_theta": "10000"})", {"rope_theta: found \"10000\"", "number"}},
        {"llama", R"({"rope_scaling": {"type": "linear"}})", {"rope_scaling.factor: missing"}},
        {"llama",
         R"({"rope_scaling": {"type": "linear", "factor": 0.5}})",
         {"rope_scaling.factor: found 0.5", "from 1"}},
        {"llama",
         R"({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2}})",
         {"\"linear\"", "\"yarn\""}},
        {"llama", R"({"rope_scaling": {"rope_type": 7}})", {"rope_scaling.rope_type: found 7", "a string"}},
        {"llama",
         R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0}})",
         {"rope_scaling.low_freq_factor: missing"}},
        {"llama",
         R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}})",
         {"high_freq_factor: found 4.0", "above low_freq_factor, 4"}},
        {"llama",
         R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0, "high_freq_factor": 4.0}})",
         {"low_freq_factor: found 0"}},
        {"llama", R"({"rope_scaling": {"type": "yarn"}})", {"rope_scaling.factor: missing"}},
        {"llama",
         R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 32}})",
         {"beta_fast is 1"}},
        {"llama",
         R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 0}})",
         {"attention_factor: found 0", "above 0"}},
        {"llama",
         R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 0}})",
         {"original_max_position_embeddings: found 0"}},
        {"llama",
         R"({"rope_scaling": {"type": "yarn", "factor": null, "original_max_position_embeddings": 8192}})",
         {"rope_scaling.factor: found null"}},
        {"llama",
         R"({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_theta": 10000.0}})",
         {"rope_parameters and rope_scaling disagree"}},
    };
    check_refused<FileError>(cases);
}

TEST_CASE("a file that is no config is refused") {
    for (const std::string_view text :
         {"", "[]", "3", "null", "{", "{\"model_type\": \"llama\", \"model_type\": \"llama\"}"}) {
        CAPTURE(text);
        test::check_contains(test::message_of<FileError>([&] { parse_model_shape(std::string(text), "config.json"); }),
                             {"config.json"});
    }
    CHECK_THROWS_AS(parse_model_shape(std::string(1'000'000, '['), "config.json"), FileError);
}

}  // namespace oomb
