#pragma once
// Static regions: buffers whose size and life are known before the step. Their offsets are the same for every chunk.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/core/page_set.hpp"

namespace oomb::schedule {

// X(name, text, what a user reads in the plan)
#define OOMB_REGIONS(X)                                                                                             \
    X(kWeights, "weights", "parameters in the compute type")                                                        \
    X(kMasterWeights, "master_weights", "fp32 parameters beside bf16 ones, or their remainders")                    \
    X(kGradients, "gradients", "parameter gradients (--gradient-dtype)")                                            \
    X(kVectorGradients, "vector_gradients", "fp32 gradients of norms and biases beside bf16 ones")                  \
    X(kMoments, "optimizer_moments", "AdamW's m and v in the accumulator type")                                     \
    X(kTokens, "chunk_tokens", "token and target numbers of a chunk, two slots")                                    \
    X(kLayerInput, "layer_inputs", "[chunk, hidden] input of a layer, a slot per layer (and held chunk) or a ring") \
    X(kAttentionOutput, "attention_outputs", "[chunk, query heads, head size] of a layer, slots as above")          \
    X(kLogSumExp, "log_sum_exp", "[chunk, query heads] of a layer, slots as above")                                 \
    X(kNormed, "normed", "[chunk, hidden] after RMSNorm")                                                           \
    X(kQkv, "qkv", "[chunk, q + k + v] linear outputs, in backward their gradients")                                \
    X(kQuery, "query", "[chunk, query heads, head size] after RoPE")                                                \
    X(kPageMeans, "page_means", "top-K: mean key of each page before the last chunk; grows with the context")       \
    X(kPageScores, "page_scores", "top-K: [query pages of a chunk, pages before it], accumulator type")             \
    X(kSelectedPages, "selected_pages", "top-K: lists of a chunk on their way to the host")                         \
    X(kOutputSum, "output_sum", "attention output summed over windows, accumulator type")                           \
    X(kOutputPart, "output_part", "attention output over one window")                                               \
    X(kLogSumExpPart, "log_sum_exp_part", "log-sum-exp over one window")                                            \
    X(kAttentionScratch, "attention_scratch", "workspace of attention over one window")                             \
    X(kMiddle, "middle", "[chunk, hidden] residual stream between attention and MLP")                               \
    X(kGateUp, "gate_up", "[chunk, 2 ffn] gate and up, in backward their gradients")                                \
    X(kFfnActivation, "ffn_activation", "[chunk, ffn] after SwiGLU")                                                \
    X(kFfnGradient, "ffn_gradient", "[chunk, ffn] gradient of the above")                                           \
    X(kFinalHidden, "final_hidden", "[chunk, hidden] output of the last layer")                                     \
    X(kTileNormed, "tile_normed", "[row tile, hidden] after the final RMSNorm")                                     \
    X(kLogits, "logits", "[row tile, vocabulary], in place their gradient")                                         \
    X(kStreamGradient, "stream_gradient", "[chunk, hidden] gradient of the residual stream")                        \
    X(kNormedGradient, "normed_gradient", "[chunk, hidden] gradient at a norm's output")                            \
    X(kOutputGradient, "output_gradient", "[chunk, query heads, head size] gradient of attention's output")         \
    X(kDelta, "delta", "[chunk, query heads] rowsum(dO * O), accumulator type")                                     \
    X(kQueryGradient, "query_gradient", "[chunk, query heads, head size] summed over windows, accumulator type")    \
    X(kWorkspace, "workspace", "constants, page lists and working memory of kernels and libraries on the GPU")      \
    X(kOptimizerShard, "optimizer_shard",                                                                           \
      "ring of shards on their way from and to the host, from the step's last chunk on")                            \
    X(kScalars, "scalars", "sums of losses and of squared gradients, float64")                                      \
    X(kHostTokens, "host_tokens", "token and target numbers of the sequence")                                       \
    X(kHostPageLists, "host_page_lists", "top-K: the pages that each query page attends to")                        \
    X(kTokenLosses, "token_losses", "evaluation: [chunk] loss of each token, accumulator type")                     \
    X(kHostLosses, "host_losses", "evaluation: [context] loss of each token")                                       \
    X(kPageMass, "page_mass", "recall: [query pages of a chunk, pages before it] attention mass, accumulator type") \
    X(kRecall, "recall", "recall: sums by layer and budget, float64")                                               \
    X(kHostStates, "host_states", "AdamW's m, v and master weights of the other shards")

enum class RegionName : std::uint8_t {
#define OOMB_REGION(name, text, why) name,
    OOMB_REGIONS(OOMB_REGION)
#undef OOMB_REGION
};
#define OOMB_REGION(name, text, why) +1
inline constexpr int kRegions = 0 OOMB_REGIONS(OOMB_REGION);
#undef OOMB_REGION

std::string_view name_of(RegionName region);
std::string_view explanation_of(RegionName region);

// Every offset and every size in an arena is a multiple of this.
inline constexpr std::int64_t kRegionAlignment_bytes = 256;

constexpr std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kRegionAlignment_bytes - 1) / kRegionAlignment_bytes * kRegionAlignment_bytes;
}

struct Region {
    Tier tier = Tier::kHbm;
    std::int64_t slot_bytes = 0;  // multiple of the alignment; 0 = the plan does not use the region
    std::int32_t slots = 0;
    std::int64_t offset_bytes = 0;  // from the arena's start
    std::int64_t total_bytes() const { return slot_bytes * slots; }
    std::int64_t slot_offset_bytes(std::int32_t slot) const { return offset_bytes + slot * slot_bytes; }
};

using RegionTable = std::array<Region, kRegions>;
inline Region& region_of(RegionTable& table, RegionName name) {
    return table[static_cast<std::size_t>(name)];
}
inline const Region& region_of(const RegionTable& table, RegionName name) {
    return table[static_cast<std::size_t>(name)];
}

}  // namespace oomb::schedule
