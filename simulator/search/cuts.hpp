#pragma once
// How the sequence is cut, and the next cuts that a search may take.

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "simulator/search/freedom.hpp"

namespace oomb::simulator {

// Tokens of chunk, window and logit tile.
using CutTokens = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
CutTokens cut_of(const RunConfiguration& run);

// The run with one of chunk, window and logit tile, of those that are free, doubled, then halved: as far as pages
// allow, and no longer than twice the sequence.
std::vector<RunConfiguration> neighbouring_cuts(const Freedom& freedom, const RunConfiguration& run);

// Chunk, window and logit tile, those that are free, halved as far as each can be; nothing where none can.
std::optional<RunConfiguration> halved_cut(const Freedom& freedom, const RunConfiguration& run);

}  // namespace oomb::simulator
