#pragma once
// RoPE from a Hugging Face config, in both spellings.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/json.hpp"
#include "runtime/core/model_shape.hpp"

namespace oomb {

// Old spelling: `rope_theta` and `rope_scaling` (null, or an object with `type` or `rope_type`). New spelling
// (transformers 5): `rope_parameters`, with `rope_theta` in it. A config with neither a theta nor `rope_parameters`
// takes transformers' default of 10000 (the same for all four families) and a note says so; `rope_parameters` without a
// theta is an error, and so are two spellings that disagree. Scaling other than none, linear, llama3 and YaRN throws
// UnsupportedError.
Rope read_rope(const JsonNode& config, ModelFamily family, std::int64_t max_positions, std::vector<std::string>& notes);

}  // namespace oomb
