#include "runtime/core/model_shape.hpp"

#include <limits>

#include "runtime/core/checked.hpp"
#include "runtime/core/config_support.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/rope_config.hpp"
#include "runtime/core/units.hpp"

namespace oomb {

namespace {

constexpr std::int64_t kMaxDimension = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxLayers = std::int64_t{1} << 16;
constexpr std::int64_t kMaxHeads = std::int64_t{1} << 16;
constexpr std::int64_t kMaxHeadDim = std::int64_t{1} << 16;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 40;
// Far above any model, and low enough that no byte count made from it (weights, gradients, moments) passes 2^63.
constexpr std::int64_t kMaxParameters = std::int64_t{1} << 50;

// Defaults that transformers 5.24 has for a key that is absent (configuration_<family>.py).
struct FamilyDefaults {
    std::int64_t kv_heads;  // 0: as many as query heads
    std::int64_t head_dim;  // 0: hidden / query heads
    std::int64_t max_positions;
};

FamilyDefaults defaults_of(ModelFamily family) {
    switch (family) {
        case ModelFamily::kLlama:
            return {0, 0, 2048};
        case ModelFamily::kMistral:
            return {8, 0, 131072};
        case ModelFamily::kQwen2:
            return {32, 0, 32768};
        case ModelFamily::kQwen3:
            return {32, 128, 32768};
    }
    fail<InternalError>("model family {} has no defaults", static_cast<int>(family));
}

// Reads one config into a shape, writing down each assumption.
class ShapeReader {
  public:
    explicit ShapeReader(const JsonNode& config) : config_(config) {}

    ModelShape read() {
        shape_.family = read_family(config_);
        refuse_unsupported(config_, shape_.family);
        read_sizes();
        read_heads();
        read_switches();
        read_dtype();
        shape_.sliding_windows = read_sliding_windows(config_, shape_.family, shape_.layers, shape_.notes);
        shape_.rope = read_rope(config_, shape_.family, shape_.max_positions, shape_.notes);
        note_unknown_keys(config_, shape_.family, shape_.notes);
        check_parameters();
        return std::move(shape_);
    }

  private:
    void note_default(std::string_view key, const std::string& value) {
        shape_.notes.push_back(fmt::format("{} names no {}: {}, transformers' default for {}, was taken.",
                                           config_.file(), key, value, name_of(shape_.family)));
    }

    bool is_absent(std::string_view key) const { return !config_.value().contains(key); }

    void read_sizes() {
        shape_.layers = config_.at("num_hidden_layers").as_integer(1, kMaxLayers);
        shape_.hidden = config_.at("hidden_size").as_integer(1, kMaxDimension);
        shape_.ffn = config_.at("intermediate_size").as_integer(1, kMaxDimension);
        shape_.vocab = config_.at("vocab_size").as_integer(1, kMaxDimension);
        const FamilyDefaults defaults = defaults_of(shape_.family);
        shape_.max_positions = config_.integer_or("max_position_embeddings", defaults.max_positions, 1, kMaxPositions);
        if (!config_.has("max_position_embeddings")) {
            note_default("max_position_embeddings", std::to_string(shape_.max_positions));
        }
        shape_.rms_norm_eps = config_.number_or("rms_norm_eps", shape_.rms_norm_eps, 0, 1);
        if (!config_.has("rms_norm_eps")) {
            note_default("rms_norm_eps", fmt::format("{}", shape_.rms_norm_eps));
        }
    }

    void read_heads() {
        shape_.query_heads = config_.at("num_attention_heads").as_integer(1, kMaxHeads);
        shape_.kv_heads = shape_.query_heads;
        const FamilyDefaults defaults = defaults_of(shape_.family);
        if (config_.has("num_key_value_heads")) {
            shape_.kv_heads = config_.at("num_key_value_heads").as_integer(1, kMaxHeads);
        } else if (is_absent("num_key_value_heads") && defaults.kv_heads != 0) {
            shape_.kv_heads = defaults.kv_heads;
            note_default("num_key_value_heads", std::to_string(shape_.kv_heads));
        }
        if (shape_.query_heads % shape_.kv_heads != 0) {
            fail<FileError>(
                "{}: {} query heads cannot be shared by {} key/value heads: num_attention_heads must be a "
                "multiple of num_key_value_heads",
                config_.file(), shape_.query_heads, shape_.kv_heads);
        }
        read_head_dim(defaults.head_dim);
        if (shape_.head_dim % 2 != 0) {
            fail<FileError>("{}: head_dim is {}, expected an even number, as RoPE turns pairs", config_.file(),
                            shape_.head_dim);
        }
    }

    void read_head_dim(std::int64_t family_default) {
        if (config_.has("head_dim")) {
            shape_.head_dim = config_.at("head_dim").as_integer(1, kMaxHeadDim);
            return;
        }
        if (family_default != 0) {
            shape_.head_dim = family_default;
            note_default("head_dim", std::to_string(family_default));
            return;
        }
        if (shape_.hidden % shape_.query_heads != 0) {
            fail<FileError>("{}: hidden_size {} is no multiple of num_attention_heads {}, and no head_dim is given",
                            config_.file(), shape_.hidden, shape_.query_heads);
        }
        shape_.head_dim = shape_.hidden / shape_.query_heads;
        if (shape_.head_dim > kMaxHeadDim) {
            fail<FileError>("{}: hidden_size / num_attention_heads is {}, expected at most {}", config_.file(),
                            shape_.head_dim, kMaxHeadDim);
        }
    }

    void read_switches() {
        shape_.tied_embeddings = config_.bool_or("tie_word_embeddings", false);
        shape_.qk_norm = shape_.family == ModelFamily::kQwen3;
        const bool attention_bias = config_.bool_or("attention_bias", false);
        const bool has_optional_bias = shape_.family == ModelFamily::kLlama || shape_.family == ModelFamily::kQwen3;
        shape_.qkv_bias = shape_.family == ModelFamily::kQwen2 || (has_optional_bias && attention_bias);
        shape_.output_bias = has_optional_bias && attention_bias;
    }

    void read_dtype() {
        const bool has_new = config_.has("dtype");
        if (!has_new && !config_.has("torch_dtype")) {
            shape_.stored_dtype = DType::kF32;
            shape_.notes.push_back(
                fmt::format("{} names no dtype: fp32, PyTorch's default, was taken.", config_.file()));
            return;
        }
        // transformers gives `dtype` precedence where both are given.
        const JsonNode node = config_.at(has_new ? "dtype" : "torch_dtype");
        std::string name = node.as_string();
        if (name.starts_with("torch.")) {
            name.erase(0, 6);
        }
        if (name == "bfloat16") {
            shape_.stored_dtype = DType::kBF16;
        } else if (name == "float16") {
            shape_.stored_dtype = DType::kF16;
        } else if (name == "float32") {
            shape_.stored_dtype = DType::kF32;
        } else if (name == "float64") {
            shape_.stored_dtype = DType::kF64;
        } else {
            fail<UnsupportedError>("{}: found {}, supported are bfloat16, float16, float32 and float64", node.place(),
                                   quoted(node.value()));
        }
    }

    void check_parameters() const {
        if (const std::int64_t count = shape_.parameters(); count > kMaxParameters) {
            fail<UnsupportedError>("{}: describes a model of {} parameters, at most {} are supported", config_.file(),
                                   format_count(count), format_count(kMaxParameters));
        }
    }

    const JsonNode& config_;
    ModelShape shape_;
};

std::int64_t times(std::int64_t a, std::int64_t b) {
    return multiply_checked(a, b, "number of parameters");
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
    return add_checked(a, b, "number of parameters");
}

std::int64_t qkv_width(const ModelShape& shape) {
    return plus(shape.query_width(), times(2, shape.kv_width()));
}

std::int64_t layer_matrices(const ModelShape& shape) {
    const std::int64_t attention = times(shape.hidden, plus(qkv_width(shape), shape.query_width()));
    return plus(attention, times(3, times(shape.hidden, shape.ffn)));
}

std::int64_t layer_vectors(const ModelShape& shape) {
    std::int64_t count = times(2, shape.hidden);  // the two norms
    count = plus(count, shape.qkv_bias ? qkv_width(shape) : 0);
    count = plus(count, shape.output_bias ? shape.hidden : 0);
    return plus(count, shape.qk_norm ? times(2, shape.head_dim) : 0);
}

}  // namespace

std::int64_t ModelShape::parameters() const {
    const std::int64_t ends = times(times(vocab, hidden), tied_embeddings ? 1 : 2);
    return plus(plus(times(layers, layer_matrices(*this)), ends), vector_parameters());
}

std::int64_t ModelShape::vector_parameters() const {
    return plus(times(layers, layer_vectors(*this)), hidden);  // and the final norm
}

ModelShape parse_model_shape(const std::string& json_text, const std::string& name_in_messages) {
    const Json document = parse_json(json_text, name_in_messages);
    const JsonNode config(document, name_in_messages);
    return ShapeReader(config.as_object()).read();
}

ModelShape read_model_shape(const std::filesystem::path& path) {
    std::error_code ignored;
    const std::filesystem::path file = std::filesystem::is_directory(path, ignored) ? path / "config.json" : path;
    return parse_model_shape(read_text_file(file, JsonLimits{}.max_bytes), file.string());
}

}  // namespace oomb
