#pragma once
// kernels/cross_entropy.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or
// BFloat16.

#include <cstddef>

#include "kernels/cross_entropy.hpp"
#include "kernels/cuda/launch.hpp"

namespace oomb::kernels::cuda {

// Bytes for the losses of a tile's rows.
std::size_t cross_entropy_workspace_bytes(std::int64_t rows);

// Adds the tile's loss and count to *sum on the device, so that tile after tile gives the whole chunk's; the caller
// clears it. Targets are checked where they are read: one outside the vocabulary makes the loss NaN here, and the row's
// gradient that of a row without a target. `workspace` lies at 8 bytes.
template <class T>
void cross_entropy(const CrossEntropyTile<T>& args, CrossEntropySum* sum, void* workspace, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
