#include "runtime/core/model_flops.hpp"

#include <algorithm>

namespace oomb {

namespace {

// Pairs of each of `tokens` with itself and all before it.
double causal_pairs(std::int64_t tokens) {
    const auto count = static_cast<double>(std::max<std::int64_t>(0, tokens));
    return count * (count + 1) / 2;
}

// ... with the window - 1 before it, where there is a window, and the first `sinks`.
double visible_pairs(std::int64_t tokens, std::int64_t window, std::int64_t sinks) {
    const double all = causal_pairs(tokens);
    if (window == 0) {
        return all;
    }
    const std::int64_t beyond = std::max<std::int64_t>(0, tokens - window);  // tokens with some beyond their window
    const std::int64_t first = std::min(sinks, beyond);
    return all - causal_pairs(beyond) + causal_pairs(first) +
           static_cast<double>(beyond - first) * static_cast<double>(first);
}

}  // namespace

double model_flops(const ModelShape& model, std::int64_t tokens, std::int64_t local_window, std::int64_t sinks) {
    const std::int64_t per_layer = model.hidden * (model.query_width() + 2 * model.kv_width()) +
                                   model.query_width() * model.hidden + 3 * model.hidden * model.ffn;
    const auto weights = static_cast<double>(model.layers * per_layer + model.vocab * model.hidden);
    const auto count = static_cast<double>(tokens);
    double pairs = 0;
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        pairs += visible_pairs(tokens, combined_window(model.sliding_window(layer), local_window), sinks);
    }
    return 6.0 * weights * count + 12.0 * static_cast<double>(model.query_width()) * pairs;
}

}  // namespace oomb
