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
// CPU: K, V and their gradients of the window side by side, scores and their gradients of one head and query tile; an
// evaluation has no gradients; in bf16 the output of the window before it is rounded.
// CUDA: AttentionScratch; none with own kernels.
std::int64_t attention_scratch_bytes(const StepShape& step);
// Elements of it in fp32 and fp64 on the CPU, for an operation with `tile` queries at a time over `keys`.
constexpr std::int64_t cpu_attention_elements(std::int64_t keys, std::int64_t kv_width, std::int64_t tile,
                                              bool backward) {
    return (backward ? 2 : 1) * (2 * keys * kv_width + tile * keys) + 2 * tile;
}

// Parts of the attention scratch on CUDA, as byte offsets from its start. Forward and backward share the bytes.
// Pages of a window are gathered to contiguous rows unless they lie in order. Our own kernels need none of it: all 0.
struct AttentionScratch {
    std::int64_t keys = 0, values = 0;                    // both: [keys, kv_heads, head_dim], compute type
    std::int64_t log_sum_exp = 0;                         // both: [query_heads, rows], accumulator type
    std::int64_t output = 0;                              // forward: [rows, query_heads, head_dim], accumulator type
    std::int64_t key_gradients = 0, value_gradients = 0;  // backward: as keys
    std::int64_t query_gradients = 0;                     // backward: [rows, query_heads, head_dim], compute type
    std::int64_t forward_library = 0, backward_library = 0;
    std::int64_t forward_library_bytes = 0, backward_library_bytes = 0;
    std::int64_t total_bytes = 0;
};
AttentionScratch attention_scratch(const StepShape& step);

// Parts of the workspace region on CUDA. One engine runs all that uses it, in order, so it is never shared in time.
struct Workspace {
    std::int64_t frequencies = 0;  // float [head_dim / 2]: inverse frequencies of RoPE
    // int32 [pages of the longest window, or entries of the lists of a group]: frames of the pages an operation reads
    std::int64_t frames = 0;
    std::int64_t gradient_frames = 0;
    std::int64_t first_touch = 0;  // uint8 [the same]: gradient pages that hold nothing yet
    // Where pages are listed: int32 [entries of the lists of a group] which page of the window each is, and the same
    // the other way about, [pages of the longest window + 1] and [entries].
    std::int64_t lists = 0, reader_offsets = 0, readers = 0;
    // int32 [turns_count]: whose turn it is to add to the gradients of queries, of the longest group of query pages
    // with lists; with own kernels, where deterministic, of the longest chunk.
    std::int64_t turns = 0, turns_count = 0;
    std::int64_t library = 0;  // cuBLASLt, partial sums of kernels, sums of queries for scores of pages
    std::int64_t library_bytes = 0;
    std::int64_t total_bytes = 0;
};
Workspace workspace(const StepShape& step);

}  // namespace oomb::schedule
