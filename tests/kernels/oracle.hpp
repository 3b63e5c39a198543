#pragma once
// What the kernels are compared with: the same mathematics in float64 through LibTorch's autograd.
// Plain vectors in and out, row-major, so that only oracle.cpp pays for LibTorch's headers.

#include <cstdint>
#include <vector>

namespace oomb::kernels::oracle {

using Values = std::vector<double>;

struct AttentionInput {
    Values q, d_o;                      // [tokens, query_heads, head_dim]
    Values k, v;                        // [keys, kv_heads, head_dim]
    std::vector<std::uint8_t> visible;  // [tokens, keys], not 0: the query sees the key
    std::int64_t tokens = 0, keys = 0, query_heads = 0, kv_heads = 0, head_dim = 0;
    double scale = 0;
};
struct AttentionResult {
    Values o, lse;  // [tokens, query_heads, head_dim], [tokens, query_heads]; 0 and -inf where nothing is seen
    Values delta;   // [tokens, query_heads]
    Values dq, dk, dv;
};
AttentionResult attention(const AttentionInput& input);

struct PageSelectionInput {
    Values q;  // [tokens, query_heads, head_dim]
    Values k;  // [pages * page_tokens, kv_heads, head_dim]
    std::int64_t page_tokens = 0, query_heads = 0, kv_heads = 0, head_dim = 0;
};
struct PageSelectionResult {
    Values means;   // [pages, kv_heads, head_dim]
    Values scores;  // [query pages, pages], from these means
};
PageSelectionResult page_selection(const PageSelectionInput& input);
// Scores from means that are given.
Values page_scores(const PageSelectionInput& input, const Values& means);

struct RmsNormResult {
    Values y, dx, d_weight;
};
RmsNormResult rms_norm(const Values& x, const Values& weight, const Values& dy, double eps);

struct RopeResult {
    Values y, dx;
};
// x and dy are [positions, heads, head_dim].
RopeResult rope(const Values& x, const Values& dy, const std::vector<std::int64_t>& positions,
                const std::vector<float>& inverse_frequency, double attention_factor);

struct SwigluResult {
    Values act, d_gate, d_up;
};
SwigluResult swiglu(const Values& gate, const Values& up, const Values& d_act);

struct EmbeddingResult {
    Values y, d_table;
};
EmbeddingResult embedding(const std::vector<std::int32_t>& tokens, const Values& table, const Values& dy,
                          std::int64_t width);

struct CrossEntropyResult {
    Values row_losses, d_logits;
};
CrossEntropyResult cross_entropy(const Values& logits, const std::vector<std::int32_t>& targets, double scale);

struct AdamWState {
    Values weights, m, v;
};
struct AdamWSettings {
    double learning_rate, beta1, beta2, eps, weight_decay;
};
// One step of torch's fused AdamW.
void adamw(AdamWState& state, const Values& gradient, std::int64_t step, const AdamWSettings& settings);

}  // namespace oomb::kernels::oracle
