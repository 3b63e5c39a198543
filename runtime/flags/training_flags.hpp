#pragma once
// What an evaluation has no use for.

#include <array>

namespace oomb {

// Of the flags of a run those that speak of gradients, of what is kept for them, and of the optimizer.
inline constexpr std::array kTrainingFlags = {
    "--gradient-dtype", "--master-weights", "--deterministic",    "--no-optimizer",  "--keep",
    "--kept-pages",     "--held-chunks",    "--optimizer-states", "--gradient-pages"};

}  // namespace oomb
