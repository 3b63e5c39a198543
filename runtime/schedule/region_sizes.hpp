#pragma once
// Bytes of each static region, from the shapes of the step.

#include "runtime/schedule/region.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

// Tier, slot size and number of slots of every region; offsets are still 0. A region that the run does not use is
// empty.
RegionTable region_sizes(const StepShape& step);

// Queries that the CPU's attention takes at a time.
inline constexpr std::int64_t kCpuQueryTile = 256;

// Workspace of one attention operation over the longest window.
// CPU: K, V and their gradients of the window side by side, scores and their gradients of one head and query tile.
// CUDA: cuDNN's backward on sm_90 holds 4 bytes per (query head, head size) element of queries and of keys; this
// formula gives the 337 MiB and 1,009 MiB measured for 8K queries on 16K and 64K keys (28 heads of 128).
std::int64_t attention_scratch_bytes(const StepShape& step);

}  // namespace oomb::schedule
