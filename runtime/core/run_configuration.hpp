#pragma once
// What the user asks of a run, after flags have been read: everything the schedule and the plan depend on besides the
// model's shape.

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/core/dtype.hpp"
#include "runtime/core/inline_vector.hpp"

namespace oomb {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };
enum class AttentionMode : std::uint8_t {
    kDense,   // every token before a token
    kTopK,    // its own chunk, and the `top_k` best pages of the history (docs/topk.md)
    kRandom,  // its own chunk, and `top_k` pages of the history drawn at random: what kTopK is measured against
    kLocal,   // the last `local_window` tokens and the first `sinks` (docs/local-attention.md)
};
// A page of queries attends to the pages of a list.
constexpr bool has_page_lists(AttentionMode attention) {
    return attention == AttentionMode::kTopK || attention == AttentionMode::kRandom;
}
// Of attention with --device cuda in bf16 (attention_kernels.hpp). What reads page lists is ours in any case.
enum class AttentionKernels : std::uint8_t {
    kAuto,   // left to a rule; in a plan's run only where there is nothing to choose
    kCudnn,  // cuDNN over contiguous windows, whose results are merged by operations of their own
    kOwn,    // ours for sm_90a, over pages where they lie, merged in place
};
enum class Offload : std::uint8_t { kNone, kHost };

// What the fill keeps for the gradient phase, per (chunk, layer).
enum class Keep : std::uint8_t {
    kNone,            // nothing: the gradient phase runs the chunk forward again ("lean")
    kInput,           // "x": layer input; no second forward, but attention again
    kOutput,          // "o": attention output and log-sum-exp; a second forward without attention and K/V
    kInputAndOutput,  // "xo": all three; no second forward
    kAuto,            // left to the plan: make_plan, or who knows the machine, puts one of the others in its place
};
constexpr bool keeps_input(Keep keep) {
    return keep == Keep::kInput || keep == Keep::kInputAndOutput;
}
constexpr bool keeps_output(Keep keep) {
    return keep == Keep::kOutput || keep == Keep::kInputAndOutput;
}

// How many K/V pages (and the gradient pages of the same tokens) have their home in HBM, first in time order.
struct HbmPages {
    enum class Mode : std::uint8_t {
        kAuto,   // as many as the GPU budget leaves room for
        kRing,   // none: pages pass through a fixed ring of frames, HBM does not grow with the context
        kCount,  // `count`
    };
    Mode mode = Mode::kAuto;
    std::int64_t count = 0;
};
std::string to_text(const HbmPages& pages);  // as in the flag: "auto", "ring" or the number

// How many of something there are to be.
struct Amount {
    enum class Mode : std::uint8_t {
        kAuto,  // as many as fit; make_plan puts a number in its place
        kAll,
        kCount,  // `count`, or all where there are fewer
    };
    Mode mode = Mode::kCount;
    std::int64_t count = 0;

    std::int64_t of(std::int64_t all) const;  // InternalError for auto
};
std::string to_text(const Amount& amount);  // as in the flags: "auto", "all" or the number

// Above this a count of tokens times bytes per token could leave 64 bits.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;

struct RunConfiguration {
    DeviceKind device = DeviceKind::kCpu;
    std::int64_t context_tokens = 0;   // longest sequence of the run
    std::int64_t chunk_tokens = 4096;  // multiple of page_tokens
    std::int64_t page_tokens = 128;
    std::int64_t window_tokens = 16384;     // history is read in windows of this many tokens; multiple of page_tokens
    std::int64_t logit_tile_tokens = 1024;  // rows of the head and of cross entropy at a time
    AttentionMode attention = AttentionMode::kDense;
    std::int64_t top_k = 0;  // pages of the history that a page of queries attends to, at most a window's; 0 with dense
    // With kLocal a token attends to itself, the local_window - 1 before it, and the first `sinks` (a multiple of the
    // page) of the sequence; else both are 0.
    std::int64_t local_window = 0;
    std::int64_t sinks = 0;
    std::uint64_t page_seed = 0;  // of kRandom's draws
    AttentionKernels attention_kernels = AttentionKernels::kAuto;
    Offload offload = Offload::kNone;
    Keep keep = Keep::kNone;
    // Pages, one per chunk and layer, of what `keep` names, in order of gain: the latest chunk first, for attention
    // over the longest history is what is saved; within a chunk the lowest layer first. A chunk without all its layer
    // inputs has to run forward anyway, so with x and xo whole chunks are kept, with o single layers.
    Amount kept_pages{Amount::Mode::kAll, 0};
    // Chunks whose activations stay in HBM from their forward to their backward, which then repeats no matrix product.
    // The last chunks are held from the fill on; one set of buffers serves all earlier ones in turn.
    Amount held_chunks;
    HbmPages hbm_pages;
    // With page lists, which alone say what gradient pages there will be: K/V gradient pages, counted over all layers,
    // that have room on the host. A step whose lists name more ends with an error.
    Amount gradient_pages{Amount::Mode::kAll, 0};
    DType compute = DType::kF32;      // weights, activations, K/V pages
    DType accumulator = DType::kF32;  // K/V gradients, parameter gradients, log-sum-exp, AdamW; fp64 in oracle mode
    // With compute in bf16 only. Gradients of weight matrices in bf16: half the memory, and rounding to bf16 each time
    // that something is added to one. Those of vectors (norm weights, biases) are tiny and stay in `accumulator`.
    bool bf16_gradients = false;
    // With compute in bf16 only. Of the master weights only what bf16 weights leave out is stored, 2 bytes instead of 4
    // (SplitWeight in kernels/optimizer.hpp); no bit of them is lost.
    bool split_masters = false;
    bool deterministic = false;  // the same bits twice; libraries then take slower ways that need more memory
    bool optimizer = true;       // reserve AdamW's state and run it
    // Evaluation: every chunk runs forward once, to the loss of each of its tokens. No gradients, nothing kept or held,
    // no optimizer.
    bool forward_only = false;
    // With forward_only and dense attention: measure which share of the attention mass the best so many pages of the
    // history cover (docs/evaluation.md). Ascending; empty: not measured.
    InlineVector<std::int64_t, 16> recall_budgets;
    // AdamW's states come in shards of about so many parameters. `resident_shards`, the first, have them in HBM, the
    // others on the host: `--optimizer-states` hbm is all, host is 0.
    std::int64_t shard_parameters = std::int64_t{1} << 24;
    Amount resident_shards{Amount::Mode::kAll, 0};
    std::int64_t gpu_memory_bytes = 0;   // budget of the HBM tier; 0 = not limited
    std::int64_t host_memory_bytes = 0;  // budget of the host tier; 0 = not limited

    // The type in which gradients of weight matrices are stored and added up; of vectors it is `accumulator`.
    DType gradient_type() const { return bf16_gradients ? compute : accumulator; }
};

// Throws UsageError naming the flag, the value found and what is allowed.
void validate(const RunConfiguration& run);

std::string_view name_of(DeviceKind device);
std::string_view name_of(AttentionMode attention);
std::string_view name_of(AttentionKernels kernels);
std::string_view name_of(Offload offload);
std::string_view name_of(Keep keep);
std::string states_text(const Amount& resident_shards);      // as in --optimizer-states, or the number
std::string_view masters_text(const RunConfiguration& run);  // as in --master-weights; "none": weights are not narrower

}  // namespace oomb
