#include "runtime/core/config_keys.hpp"

#include <algorithm>
#include <array>

namespace oomb {

namespace {

constexpr std::string_view kExperts = "mixture of experts";
constexpr std::string_view kPartialRope = "layers or parts of heads without RoPE";
constexpr std::string_view kScaled = "scaled embeddings, residuals, scores or logits";
constexpr std::string_view kDropout = "dropout";
constexpr std::string_view kSoftcap = "soft-capped scores or logits";
constexpr std::string_view kLatent = "latent attention (MLA)";
constexpr std::string_view kLocal = "attention over a part of the context";
constexpr std::string_view kOtherModality = "inputs other than text";
constexpr std::string_view kQuantised = "quantised weights";
constexpr std::string_view kBias = "biases this family does not have";
constexpr std::string_view kOtherBlocks = "layers that differ from one another or from the family's";

constexpr MeaningfulKey kMeaningful[] = {
    {"num_local_experts", Neutral::kEmpty, kExperts},
    {"num_experts", Neutral::kEmpty, kExperts},
    {"n_routed_experts", Neutral::kEmpty, kExperts},
    {"n_shared_experts", Neutral::kEmpty, kExperts},
    {"num_shared_experts", Neutral::kEmpty, kExperts},
    {"moe_num_experts", Neutral::kEmpty, kExperts},
    {"num_experts_per_tok", Neutral::kEmpty, kExperts},
    {"moe_intermediate_size", Neutral::kEmpty, kExperts},
    {"shared_expert_intermediate_size", Neutral::kEmpty, kExperts},
    {"first_k_dense_replace", Neutral::kEmpty, kExperts},
    {"mlp_only_layers", Neutral::kEmpty, kExperts},
    {"dual_chunk_attention_config", Neutral::kEmpty, "dual chunk attention"},
    {"sparse_attention_config", Neutral::kEmpty, "sparse attention"},
    {"attention_chunk_size", Neutral::kEmpty, kLocal},
    {"sliding_window_pattern", Neutral::kEmpty, kLocal},
    {"attention_sinks", Neutral::kEmpty, "attention sinks"},
    {"no_rope_layers", Neutral::kEmpty, kPartialRope},
    {"no_rope_layer_interval", Neutral::kEmpty, kPartialRope},
    {"nope_layer_interval", Neutral::kEmpty, kPartialRope},
    {"partial_rotary_factor", Neutral::kOne, kPartialRope},
    {"rotary_pct", Neutral::kOne, kPartialRope},
    {"rope_pct", Neutral::kOne, kPartialRope},
    {"use_rope", Neutral::kTrue, kPartialRope},
    {"rope_interleaved", Neutral::kEmpty, "RoPE over interleaved pairs"},
    {"rope_interleave", Neutral::kEmpty, "RoPE over interleaved pairs"},
    {"rope_local_base_freq", Neutral::kNull, "a second RoPE"},
    {"use_mrope", Neutral::kEmpty, "RoPE in several dimensions"},
    {"alibi", Neutral::kEmpty, "ALiBi positions"},
    {"use_alibi", Neutral::kEmpty, "ALiBi positions"},
    {"mlp_bias", Neutral::kEmpty, kBias},
    {"qkv_bias", Neutral::kEmpty, kBias},
    {"attention_out_bias", Neutral::kEmpty, kBias},
    {"lm_head_bias", Neutral::kEmpty, kBias},
    {"quantization_config", Neutral::kEmpty, kQuantised},
    {"compression_config", Neutral::kEmpty, kQuantised},
    {"attn_logit_softcapping", Neutral::kEmpty, kSoftcap},
    {"attn_logit_softcap", Neutral::kEmpty, kSoftcap},
    {"attention_logit_softcapping", Neutral::kEmpty, kSoftcap},
    {"final_logit_softcapping", Neutral::kEmpty, kSoftcap},
    {"logit_softcap", Neutral::kEmpty, kSoftcap},
    {"query_pre_attn_scalar", Neutral::kNull, kScaled},
    {"attention_multiplier", Neutral::kNull, kScaled},
    {"attn_temperature_tuning", Neutral::kEmpty, kScaled},
    {"embedding_multiplier", Neutral::kOne, kScaled},
    {"residual_multiplier", Neutral::kOne, kScaled},
    {"logits_scaling", Neutral::kOne, kScaled},
    {"logit_scale", Neutral::kOne, kScaled},
    {"scale_emb", Neutral::kOne, kScaled},
    {"scale_depth", Neutral::kNull, kScaled},
    {"dim_model_base", Neutral::kNull, kScaled},
    {"attention_dropout", Neutral::kEmpty, kDropout},
    {"hidden_dropout", Neutral::kEmpty, kDropout},
    {"hidden_dropout_prob", Neutral::kEmpty, kDropout},
    {"resid_pdrop", Neutral::kEmpty, kDropout},
    {"embd_pdrop", Neutral::kEmpty, kDropout},
    {"q_lora_rank", Neutral::kEmpty, kLatent},
    {"kv_lora_rank", Neutral::kEmpty, kLatent},
    {"qk_rope_head_dim", Neutral::kEmpty, kLatent},
    {"v_head_dim", Neutral::kNull, kLatent},
    {"per_layer_config", Neutral::kEmpty, kOtherBlocks},
    {"block_configs", Neutral::kEmpty, kOtherBlocks},
    {"pruned_heads", Neutral::kEmpty, kOtherBlocks},
    {"use_parallel_residual", Neutral::kEmpty, kOtherBlocks},
    {"parallel_attn", Neutral::kEmpty, kOtherBlocks},
    {"num_kv_shared_layers", Neutral::kEmpty, kOtherBlocks},
    {"add_cross_attention", Neutral::kEmpty, "cross attention"},
    {"cross_attention_layers", Neutral::kEmpty, "cross attention"},
    {"is_encoder_decoder", Neutral::kEmpty, "an encoder and a decoder"},
    {"num_nextn_predict_layers", Neutral::kEmpty, "prediction of several tokens"},
    {"text_config", Neutral::kEmpty, kOtherModality},
    {"vision_config", Neutral::kEmpty, kOtherModality},
    {"audio_config", Neutral::kEmpty, kOtherModality},
    {"auto_map", Neutral::kEmpty, "code of the model's own (trust_remote_code)"},
};

constexpr std::string_view kRead[] = {"architectures",
                                      "attention_bias",
                                      "dtype",
                                      "head_dim",
                                      "hidden_act",
                                      "hidden_size",
                                      "intermediate_size",
                                      "layer_types",
                                      "max_position_embeddings",
                                      "max_window_layers",
                                      "model_type",
                                      "num_attention_heads",
                                      "num_hidden_layers",
                                      "num_key_value_heads",
                                      "original_max_position_embeddings",
                                      "qk_layernorm",
                                      "qk_norm",
                                      "rms_norm_eps",
                                      "rope_parameters",
                                      "rope_scaling",
                                      "rope_theta",
                                      "sliding_window",
                                      "tie_word_embeddings",
                                      "torch_dtype",
                                      "use_qk_norm",
                                      "use_sliding_window",
                                      "vocab_size"};

// Start values, token numbers, generation and labels, and how a computation is carried out rather than what it is.
constexpr std::string_view kHarmless[] = {"_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_commit_hash",
                                          "_name_or_path",
                                          "attn_implementation",
                                          "bos_token_id",
                                          "chunk_size_feed_forward",
                                          "cross_attention_hidden_size",
                                          "decoder_start_token_id",
                                          "decoder_sparse_step",
                                          "do_sample",
                                          "eos_token_id",
                                          "finetuning_task",
                                          "id2label",
                                          "initializer_range",
                                          "is_decoder",
                                          "is_llama_config",
                                          "label2id",
                                          "max_length",
                                          "max_new_tokens",
                                          "max_sequence_length",
                                          "min_length",
                                          "name_or_path",
                                          "norm_topk_prob",
                                          "num_labels",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_router_logits",
                                          "pad_token_id",
                                          "prefix",
                                          "pretraining_tp",
                                          "problem_type",
                                          "remove_invalid_values",
                                          "return_dict",
                                          "return_dict_in_generate",
                                          "router_aux_loss_coef",
                                          "sep_token_id",
                                          "task_specific_params",
                                          "temperature",
                                          "tf_legacy_loss",
                                          "tie_encoder_decoder",
                                          "tokenizer_class",
                                          "top_k",
                                          "top_p",
                                          "torchscript",
                                          "transformers.js_config",
                                          "transformers_version",
                                          "unsloth_fixed",
                                          "unsloth_version",
                                          "use_bfloat16",
                                          "use_cache"};

}  // namespace

std::span<const MeaningfulKey> meaningful_keys() {
    return kMeaningful;
}

bool is_known_key(std::string_view key) {
    const auto is_key = [key](std::string_view candidate) { return candidate == key; };
    return std::ranges::any_of(kRead, is_key) || std::ranges::any_of(kHarmless, is_key) ||
           std::ranges::any_of(kMeaningful, is_key, &MeaningfulKey::name);
}

}  // namespace oomb
