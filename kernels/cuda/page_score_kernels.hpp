#pragma once
// Scores of pages by tensor cores, as page_scores.cu launches them.

#include "kernels/cuda/launch.hpp"
#include "kernels/page_selection.hpp"

namespace oomb::kernels::cuda {

// Parts of the workspace. A sum of queries is high + low.
struct TensorScoreParts {
    BFloat16* high = nullptr;   // [tokens, kv_heads, head_dim]
    BFloat16* low = nullptr;    // [tokens, kv_heads, head_dim]
    float* lse_log2 = nullptr;  // [tokens, kv_heads]: logarithm to base 2 of the softmax's denominator
};

bool tensor_scores_take(const PageScores<BFloat16>& args);

void tensor_page_scores(const PageScores<BFloat16>& args, const TensorScoreParts& parts, cudaStream_t stream);

constexpr const char* kPageScoresName = "page_scores";

}  // namespace oomb::kernels::cuda
