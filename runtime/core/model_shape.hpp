#pragma once
// What the mathematics of a model depends on, read from a Hugging Face `config.json`.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/core/dtype.hpp"

namespace oomb {

enum class ModelFamily : std::uint8_t { kLlama, kMistral, kQwen2, kQwen3 };

enum class RopeScaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn };

// Rotary embedding. Frequencies are those of transformers 5 (modeling_rope_utils.py).
struct Rope {
    double theta = 10000.0;
    bool theta_is_default = false;  // the config named no theta; the family's default was taken
    RopeScaling scaling = RopeScaling::kNone;
    double factor = 1.0;
    std::int64_t original_max_positions = 0;
    double low_freq_factor = 1.0;  // llama3
    double high_freq_factor = 4.0;
    double beta_fast = 32.0;  // yarn
    double beta_slow = 1.0;
    double mscale = 0.0;  // yarn: 0 = not given
    double mscale_all_dim = 0.0;
    double attention_factor = 0.0;  // yarn: 0 = not given
    bool truncate = true;           // yarn

    bool operator==(const Rope&) const = default;
};

struct ModelShape {
    ModelFamily family = ModelFamily::kLlama;
    std::int64_t layers = 0;
    std::int64_t hidden = 0;
    std::int64_t query_heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t ffn = 0;
    std::int64_t vocab = 0;
    std::int64_t max_positions = 0;
    double rms_norm_eps = 1e-6;
    bool tied_embeddings = false;
    bool qkv_bias = false;              // bias on q, k and v projections
    bool output_bias = false;           // bias on the attention output projection (Llama with attention_bias)
    bool qk_norm = false;               // RMSNorm over head_dim of q and k before RoPE (Qwen3)
    DType stored_dtype = DType::kBF16;  // of the weights on disk, as the config says
    Rope rope;
    // By layer: w, a token attends to itself and the w - 1 before it; 0, to all before it. Empty: 0 in every layer.
    std::vector<std::int64_t> sliding_windows;
    std::vector<std::string> notes;  // what was assumed, for the user: one sentence each

    std::int64_t query_width() const { return query_heads * head_dim; }
    std::int64_t kv_width() const { return kv_heads * head_dim; }
    std::int64_t group() const { return query_heads / kv_heads; }
    std::int64_t sliding_window(std::int64_t layer) const {
        return sliding_windows.empty() ? 0 : sliding_windows[layer];
    }
    std::int64_t parameters() const;         // number of trainable parameters, tied ones once
    std::int64_t vector_parameters() const;  // of them: norm weights and biases, all that is no matrix
};

// The smaller of two sliding windows, of which 0 is none.
constexpr std::int64_t combined_window(std::int64_t a, std::int64_t b) {
    return a == 0 || b == 0 ? a + b : std::min(a, b);
}

// `path` is a config.json or a folder that holds one. Throws FileError for a missing or damaged file (naming the key,
// what was found, what is allowed) and UnsupportedError for whatever changes the mathematics and is not computed here.
ModelShape read_model_shape(const std::filesystem::path& path);
ModelShape parse_model_shape(const std::string& json_text, const std::string& name_in_messages);

struct RopeFrequencies {
    std::vector<float> inverse_frequency;  // [head_dim / 2], fp32 as in transformers
    double attention_factor = 1.0;         // multiplies sine and cosine
};
RopeFrequencies rope_frequencies(const ModelShape& shape);

}  // namespace oomb
