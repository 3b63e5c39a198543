#pragma once
// Lists of frames on their way to the device.

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.hpp"

namespace oomb::kernels::cuda {

// Writes `frames`, and `first_touch` unless it is empty, to device memory in stream order. The lists travel as kernel
// parameters: they are read before this returns and need not be pinned, and no copy engine is used. Several launches
// for lists of more than 704 pages. `first_touch` is empty, or as long as `frames`; its output may be null if empty.
void write_page_list(std::span<const std::int32_t> frames, std::span<const std::uint8_t> first_touch,
                     std::int32_t* frames_out, std::uint8_t* first_touch_out, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
