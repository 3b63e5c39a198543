#pragma once
// Small valid configs of each family, and changes to them.

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/core/json.hpp"

namespace oomb::test {

inline Json small_config(std::string_view model_type) {
    Json config = Json::parse(R"({
        "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 4096,
        "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 16,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        "vocab_size": 128, "sliding_window": null})");
    config["model_type"] = model_type;
    return config;
}

// A small config with the keys of `changes` (a JSON object) set; a value "<absent>" removes the key.
inline std::string changed(std::string_view model_type, std::string_view changes) {
    Json config = small_config(model_type);
    const Json patch = Json::parse(changes);
    for (const auto& [key, value] : patch.items()) {
        if (value == "<absent>") {
            config.erase(key);
        } else {
            config[key] = value;
        }
    }
    return config.dump();
}

inline std::filesystem::path source_folder() {
    return OOMB_SOURCE_DIR;
}

}  // namespace oomb::test
