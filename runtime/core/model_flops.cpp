#include "runtime/core/model_flops.hpp"

namespace oomb {

double model_flops(const ModelShape& model, std::int64_t tokens) {
    const std::int64_t per_layer = model.hidden * (model.query_width() + 2 * model.kv_width()) +
                                   model.query_width() * model.hidden + 3 * model.hidden * model.ffn;
    const auto weights = static_cast<double>(model.layers * per_layer + model.vocab * model.hidden);
    const auto count = static_cast<double>(tokens);
    const double pairs = count * (count + 1) / 2;
    return 6.0 * weights * count + 12.0 * static_cast<double>(model.layers * model.query_width()) * pairs;
}

}  // namespace oomb
