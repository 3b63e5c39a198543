#pragma once
// The work of a training step that does not depend on how it is carried out: what utilisation is counted in.

#include <cstdint>

#include "runtime/core/model_shape.hpp"

namespace oomb {

// FLOPs of one forward and one backward over a sequence, nothing computed twice:
//   6 N per token                N: weights of matrix products, in the layers and in the head (tied or not);
//                                2 N forward, 4 N backward
//   12 head_dim per layer, query head and (query, key) pair under the causal mask and the layer's sliding window, or
//                                that of --attention local with its sinks
//                                4 forward (scores, output), 8 backward (dQ, dK, dV and the scores' gradient)
// Embedding look-ups, norms, RoPE, softmax and the optimizer are not counted.
double model_flops(const ModelShape& model, std::int64_t tokens, std::int64_t local_window = 0, std::int64_t sinks = 0);

}  // namespace oomb
