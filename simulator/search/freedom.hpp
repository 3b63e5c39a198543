#pragma once
// What a search for the least time may set.

#include "runtime/core/run_configuration.hpp"

namespace oomb::simulator {

// All else stays as the run says.
struct Freedom {
    bool chunk = false, window = false, logit_tile = false;
    bool keep = false, kept_pages = false, held_chunks = false;
    bool offload = false, hbm_pages = false, optimizer_states = false;
};

// What the run leaves to auto, where that is --keep or --held-chunks: these, the number of kept pages and the place of
// optimizer states.
Freedom left_to_auto(const RunConfiguration& run);

}  // namespace oomb::simulator
