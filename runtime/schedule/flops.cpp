#include "runtime/schedule/flops.hpp"

#include <algorithm>

namespace oomb::schedule {

double attention_pairs(const AttentionCost& cost) {
    const std::int64_t end = cost.first_key + cost.keys;
    if (cost.first_query >= end - 1 && cost.sliding_window == 0 && cost.document_start <= cost.first_key) {
        return static_cast<double>(cost.queries) * static_cast<double>(cost.keys);
    }
    double pairs = 0;
    for (std::int64_t query = cost.first_query; query < cost.first_query + cost.queries; ++query) {
        std::int64_t first = std::max(cost.first_key, cost.document_start);
        if (cost.sliding_window > 0) {
            first = std::max(first, query + 1 - cost.sliding_window);
        }
        pairs += static_cast<double>(std::max<std::int64_t>(0, std::min(end, query + 1) - first));
    }
    return pairs;
}

double flops_of(const Cost& cost) {
    if (const auto* gemm = std::get_if<GemmCost>(&cost)) {
        return 2.0 * static_cast<double>(gemm->m) * static_cast<double>(gemm->n) * static_cast<double>(gemm->k);
    }
    if (const auto* attention = std::get_if<AttentionCost>(&cost)) {
        const double per_pair = static_cast<double>((attention->backward ? 10 : 4) * attention->head_dim);
        return per_pair * static_cast<double>(attention->query_heads) * attention_pairs(*attention);
    }
    return 0.0;
}

}  // namespace oomb::schedule
