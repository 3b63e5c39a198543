#pragma once
// Which keys of a Hugging Face config change the mathematics in a way that OOMB does not compute.
//
// The principle: a model of a supported `model_type` without code of its own is defined by the keys that transformers
// reads for that type. Those are read here. A key of another architecture that is set to anything but its neutral value
// shows that the author means something else, and is refused by name. Any other key is named in a note.

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/json.hpp"
#include "runtime/core/model_shape.hpp"

namespace oomb {

// The spelling of `model_type`: "llama", "mistral", "qwen2", "qwen3".
std::string_view name_of(ModelFamily family);

// FileError when `model_type` is absent, UnsupportedError when it is none of the four.
ModelFamily read_family(const JsonNode& config);

// Throws UnsupportedError that names the first key that asks for something OOMB does not compute.
void refuse_unsupported(const JsonNode& config, ModelFamily family);

// ModelShape::sliding_windows as transformers reads them: for Mistral `sliding_window`, in every layer; for Qwen2 and
// Qwen3 with `use_sliding_window` in the layers that `layer_types` calls sliding or, without it, from
// `max_window_layers` on. Llama has none: UnsupportedError where its config asks for one.
std::vector<std::int64_t> read_sliding_windows(const JsonNode& config, ModelFamily family, std::int64_t layers,
                                               std::vector<std::string>& notes);

// Adds one note that lists the keys nobody reads.
void note_unknown_keys(const JsonNode& config, ModelFamily family, std::vector<std::string>& notes);

// Throws UnsupportedError: "config.json: num_experts: found 8, which asks for mixture of experts; ...".
[[noreturn]] void refuse_meaning(const JsonNode& node, std::string_view meaning);

}  // namespace oomb
