#pragma once
// The keys of Hugging Face configs that OOMB knows: a table, read by config_support.cpp.

#include <span>
#include <string_view>

#include "runtime/core/json.hpp"

namespace oomb {

// The value under which a key changes nothing; null always counts as neutral.
enum class Neutral : std::uint8_t {
    kEmpty,  // false, 0, "", [], {}
    kOne,    // 1
    kNull,   // null alone
    kTrue,   // true
};

// A key that changes the mathematics unless it is neutral.
struct MeaningfulKey {
    std::string_view name;
    Neutral neutral;
    std::string_view meaning;  // "mixture of experts", completes "which asks for ..."
};

std::span<const MeaningfulKey> meaningful_keys();

// Whether the key is read, refused unless neutral, or known to have no influence on training.
bool is_known_key(std::string_view key);

}  // namespace oomb
