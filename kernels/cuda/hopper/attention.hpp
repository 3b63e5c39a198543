#pragma once
// Attention in bfloat16 by the tensor cores and the copy engine of sm_90a, over pages where they lie;
// docs/hopper-attention.md has the pipelines and their budgets. See launch.hpp for what entry points promise.
//
// Sums of scores and outputs are fp32, weights and their gradients are rounded to bfloat16 before they are multiplied.
// Operands that takes() refuses go to the plain kernel (kernels/cuda/attention.hpp): pages of other than 128 tokens, a
// head_dim other than 64 or 128, a scale that is not positive, data that do not lie on 16 bytes, no keys.

#include "kernels/attention.hpp"
#include "kernels/cuda/launch.hpp"

namespace oomb::kernels::cuda::hopper {

// Two steps of one kernel, to measure what the second is worth; they sum in the same order.
enum class ForwardKernel {
    kSimple,       // every warpgroup waits for its products; one thread of the block loads
    kSpecialised,  // a producer warp; the products of one page run under the softmax of the next
};

// A query page, 128 queries counted from the call's first, reads these pages alone, of those its mask lets it see.
struct PageLists {
    const std::int32_t* pages =
        nullptr;  // [query pages, count], pages of the window, ascending; -1 ends a shorter list
    std::int64_t count = 0;
};

struct ForwardOptions {
    ForwardKernel kernel = ForwardKernel::kSpecialised;
    PageLists lists = {};  // if given; else every query reads the whole window
    bool merge = false;    // o_part and lse_part hold the result over other keys; they become that over both
};

bool takes(const AttentionForward<BFloat16>& args);

// Throws InternalError if there are lists, or a result to merge with, and takes() refuses.
void attention_forward(const AttentionForward<BFloat16>& args, const ForwardOptions& options, cudaStream_t stream);

// The lists the other way about: page p of the window is read by the query pages `query_pages[offsets[p]]` to
// `query_pages[offsets[p + 1] - 1]`.
struct PageReaders {
    const std::int32_t* offsets = nullptr;      // [pages + 1]
    const std::int32_t* query_pages = nullptr;  // [offsets[pages]]
};

enum class BackwardKernel {
    kSimple,       // all of a tile is done before the next one's products begin
    kSpecialised,  // dq of a tile goes out under the scores of the next, by warps of its own
};
struct BackwardOptions {
    BackwardKernel kernel = BackwardKernel::kSpecialised;
    PageReaders readers = {};  // if given; else every page is read by all queries
    // Room for backward_turns() numbers, whatever they hold. If given, dq has the same bits every time: pages add to a
    // query in ascending order, whatever `kernel` says as kSpecialised does. `lists` are then those that `readers` turn
    // about, if there are any.
    std::int32_t* turns = nullptr;
    PageLists lists = {};
};

bool takes(const AttentionBackward<BFloat16>& args);

std::int64_t backward_turns(std::int64_t tokens, std::int64_t query_heads);

// dk and dv have the same bits every time. dq has not unless turns are given: blocks, each with a page, add to it in
// the order they come. Throws InternalError if there are readers and takes() refuses, or turns and readers but no
// lists.
void attention_backward(const AttentionBackward<BFloat16>& args, const BackwardOptions& options, cudaStream_t stream);

}  // namespace oomb::kernels::cuda::hopper
