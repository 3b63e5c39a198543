#include "runtime/core/config_support.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "runtime/core/config_keys.hpp"
#include "runtime/core/error.hpp"

namespace oomb {

namespace {

constexpr std::array<std::pair<ModelFamily, std::string_view>, 4> kFamilies{{{ModelFamily::kLlama, "llama"},
                                                                             {ModelFamily::kMistral, "mistral"},
                                                                             {ModelFamily::kQwen2, "qwen2"},
                                                                             {ModelFamily::kQwen3, "qwen3"}}};

bool is_empty_value(const Json& value) {
    return value.is_null() || value == false || (value.is_number() && value == 0) ||
           (value.is_string() && value.get_ref<const std::string&>().empty()) ||
           (value.is_structured() && value.empty());
}

bool is_neutral(const Json& value, Neutral neutral) {
    switch (neutral) {
        case Neutral::kEmpty:
            return is_empty_value(value);
        case Neutral::kOne:
            return value.is_null() || (value.is_number() && value == 1);
        case Neutral::kNull:
            return value.is_null();
        case Neutral::kTrue:
            return value.is_null() || value == true;
    }
    return false;
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

// Heads other than the language model's (classification, rewards) have no loss over tokens.
void refuse_other_heads(const JsonNode& config, ModelFamily family) {
    if (!config.has("architectures")) {
        return;
    }
    const JsonNode architectures = config.at("architectures");
    const std::string wanted = fmt::format("{}forcausallm", name_of(family));
    for (std::size_t i = 0; i < architectures.size(); ++i) {
        if (lower(architectures.item(i).as_string()) != wanted) {
            refuse_meaning(architectures.item(i), "an architecture other than the family's ...ForCausalLM");
        }
    }
}

void refuse_other_activation(const JsonNode& config) {
    const std::string activation = config.string_or("hidden_act", "silu");
    if (activation != "silu" && activation != "swish") {
        refuse_meaning(config.at("hidden_act"), "an activation other than silu");
    }
}

// transformers gives Qwen2 its Q/K/V bias and Mistral none, whatever the config says.
void refuse_contradicting_bias(const JsonNode& config, ModelFamily family) {
    const bool is_given = config.has("attention_bias");
    if (family == ModelFamily::kMistral && is_given && config.at("attention_bias").as_bool()) {
        refuse_meaning(config.at("attention_bias"), "biases in attention, which Mistral has not");
    }
    if (family == ModelFamily::kQwen2 && is_given && !config.at("attention_bias").as_bool()) {
        refuse_meaning(config.at("attention_bias"), "no bias on Q, K and V, where Qwen2 always has one");
    }
}

// By layer: whether `layer_types` calls it sliding; empty where the key is absent.
std::vector<bool> read_layer_types(const JsonNode& config, std::int64_t layers) {
    std::vector<bool> sliding;
    if (!config.has("layer_types")) {
        return sliding;
    }
    const JsonNode types = config.at("layer_types");
    if (static_cast<std::int64_t>(types.size()) != layers) {
        fail<FileError>("{}: has {} entries, expected one for each of the {} layers", types.place(), types.size(),
                        layers);
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
        const std::string type = types.item(i).as_string();
        if (type != "sliding_attention" && type != "full_attention" && type != "attention") {
            refuse_meaning(types.item(i), "a layer other than full attention or a sliding window");
        }
        sliding.push_back(type == "sliding_attention");
    }
    return sliding;
}

bool is_qwen(ModelFamily family) {
    return family == ModelFamily::kQwen2 || family == ModelFamily::kQwen3;
}

constexpr std::int64_t kDefaultWindow = 4096;  // of transformers, for Mistral, Qwen2 and Qwen3

// 0: null, which is no window.
std::int64_t read_window(const JsonNode& config, ModelFamily family, std::vector<std::string>& notes) {
    if (!config.value().contains("sliding_window")) {
        notes.push_back(fmt::format("{} names no sliding_window: {}, transformers' default for {}, was taken.",
                                    config.file(), kDefaultWindow, name_of(family)));
        return kDefaultWindow;
    }
    return config.has("sliding_window") ? config.at("sliding_window").as_integer(1) : 0;
}

std::vector<std::int64_t> read_qwen_windows(const JsonNode& config, ModelFamily family, std::int64_t layers,
                                            std::vector<std::string>& notes) {
    constexpr std::int64_t kDefaultFirstWindowLayer = 28;
    const std::int64_t first = config.integer_or("max_window_layers", kDefaultFirstWindowLayer, 0);
    std::vector<bool> sliding = read_layer_types(config, layers);
    const bool is_used = config.bool_or("use_sliding_window", false);
    const std::int64_t window = is_used ? read_window(config, family, notes) : 0;
    const auto named = std::ranges::find(sliding, true);
    if (window == 0) {
        if (named != sliding.end()) {
            fail<UnsupportedError>(
                "{}: found \"sliding_attention\", but no window is in use: expected use_sliding_window true and "
                "sliding_window a number",
                config.at("layer_types").item(named - sliding.begin()).place());
        }
        return {};
    }
    if (sliding.empty()) {
        for (std::int64_t layer = 0; layer < layers; ++layer) {
            sliding.push_back(layer >= first);
        }
    }
    std::vector<std::int64_t> windows;
    for (const bool slides : sliding) {
        windows.push_back(slides ? window : 0);
    }
    if (std::ranges::find(sliding, true) == sliding.end()) {
        notes.push_back(
            fmt::format("{} is true, but leaves no layer of {} with a window (max_window_layers {}): all "
                        "attend fully.",
                        config.at("use_sliding_window").place(), layers, first));
        return {};
    }
    return windows;
}

// transformers reads no such key for Llama; an explicit false shows that no window is meant.
void refuse_llama_window(const JsonNode& config, std::int64_t layers) {
    const std::vector<bool> sliding = read_layer_types(config, layers);
    if (const auto named = std::ranges::find(sliding, true); named != sliding.end()) {
        refuse_meaning(config.at("layer_types").item(named - sliding.begin()),
                       "attention over a sliding window, which Llama has not");
    }
    if (config.has("sliding_window") && config.bool_or("use_sliding_window", true)) {
        refuse_meaning(config.at("sliding_window"), "attention over a sliding window, which Llama has not");
    }
}

}  // namespace

std::string_view name_of(ModelFamily family) {
    for (const auto& [candidate, name] : kFamilies) {
        if (candidate == family) {
            return name;
        }
    }
    fail<InternalError>("model family {} has no name", static_cast<int>(family));
}

ModelFamily read_family(const JsonNode& config) {
    const JsonNode type = config.at("model_type");
    const std::string found = type.as_string();
    for (const auto& [family, name] : kFamilies) {
        if (name == found) {
            return family;
        }
    }
    fail<UnsupportedError>("{}: found {}, supported are llama, mistral, qwen2 and qwen3", type.place(),
                           quoted(type.value()));
}

void refuse_meaning(const JsonNode& node, std::string_view meaning) {
    fail<UnsupportedError>("{}: found {}, which asks for {}: OOMB does not compute that; use a model without it",
                           node.place(), quoted(node.value()), meaning);
}

void refuse_unsupported(const JsonNode& config, ModelFamily family) {
    refuse_other_heads(config, family);
    for (const MeaningfulKey& key : meaningful_keys()) {
        if (config.has(key.name) && !is_neutral(config.at(key.name).value(), key.neutral)) {
            refuse_meaning(config.at(key.name), key.meaning);
        }
    }
    refuse_other_activation(config);
    refuse_contradicting_bias(config, family);
    if (family != ModelFamily::kQwen3) {
        for (const std::string_view key : {"use_qk_norm", "qk_norm", "qk_layernorm"}) {
            if (config.bool_or(key, false)) {
                refuse_meaning(config.at(key), "a norm on Q and K, which only Qwen3 has");
            }
        }
    }
}

std::vector<std::int64_t> read_sliding_windows(const JsonNode& config, ModelFamily family, std::int64_t layers,
                                               std::vector<std::string>& notes) {
    if (config.has("sliding_window")) {
        config.at("sliding_window").as_integer(0);
    }
    if (is_qwen(family)) {
        return read_qwen_windows(config, family, layers, notes);
    }
    if (family == ModelFamily::kLlama) {
        refuse_llama_window(config, layers);
        return {};
    }
    // transformers' Mistral has one kind of layer, whatever layer_types says.
    const std::int64_t window = read_window(config, family, notes);
    const std::vector<bool> sliding = read_layer_types(config, layers);
    if (const auto other = std::ranges::find(sliding, window == 0); other != sliding.end()) {
        refuse_meaning(
            config.at("layer_types").item(other - sliding.begin()),
            fmt::format("a layer unlike what sliding_window says of all ({}), which Mistral has not",
                        window > 0 ? fmt::format("a window of {}", window) : std::string("none has a window")));
    }
    return window > 0 ? std::vector<std::int64_t>(layers, window) : std::vector<std::int64_t>{};
}

void note_unknown_keys(const JsonNode& config, ModelFamily family, std::vector<std::string>& notes) {
    constexpr std::size_t kMaxNamed = 8;
    std::string names;
    std::size_t unknown = 0;
    for (const auto& [key, value] : config.value().items()) {
        if (value.is_null() || is_known_key(key)) {
            continue;
        }
        if (++unknown <= kMaxNamed) {
            names += (names.empty() ? "" : ", ") + quoted(Json(key));
        }
    }
    if (unknown > kMaxNamed) {
        names += fmt::format(" and {} more", unknown - kMaxNamed);
    }
    if (unknown > 0) {
        notes.push_back(fmt::format("{}: not read, because transformers reads no such key for {}: {}.", config.file(),
                                    name_of(family), names));
    }
}

}  // namespace oomb
