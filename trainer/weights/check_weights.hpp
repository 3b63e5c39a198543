#pragma once
// Do the weights of a folder belong to a model of this shape?

#include <string>
#include <vector>

#include "runtime/core/model_shape.hpp"
#include "trainer/weights/weight_folder.hpp"

namespace oomb::trainer {

// Every parameter must be there with its shape, in float64, float32, bfloat16 or float16, and nothing else may be:
// a tensor that is not used would be dropped silently. Tolerated are "*.rotary_emb.inv_freq" (recomputed from the
// config) and, with tied embeddings, a head with the embedding's type, shape and bytes.
// Throws FileError naming missing, unexpected or misshapen tensors, UnsupportedError for quantised ones.
// Returns the names of the tolerated tensors, which are not read and not written again.
std::vector<std::string> check_weights(const WeightFolder& weights, const ModelShape& shape);

}  // namespace oomb::trainer
