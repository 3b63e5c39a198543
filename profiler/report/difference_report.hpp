#pragma once
// Two profiles beside each other as tables for a terminal, and as JSON (docs/comparing.md).

#include <string>
#include <vector>

#include "profiler/analysis/difference.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {

// What makes the two hard to compare: a sentence each.
std::vector<std::string> notes_of(const ProfileDifference& difference);

std::string difference_text(const ProfileDifference& difference, std::size_t rows);
Json difference_json(const ProfileDifference& difference);

}  // namespace oomb::profiler
