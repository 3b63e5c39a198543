#pragma once
// Gradients at the outputs of the K and V projections, out of the gradient of the qkv buffer.

#include <span>
#include <vector>

#include "trainer/executor/backend.hpp"

namespace oomb::trainer {

// `qkv` is [rows, query width + 2 x K/V width] in host memory: what the operation, a rope_backward, has made.
template <class T>
void tell_kv_gradients(const Backend& backend, const ModelShape& model, const schedule::Operation& operation,
                       std::span<const T> qkv) {
    const std::int64_t query = model.query_width(), width = model.kv_width(), stride = query + 2 * width;
    std::vector<float> keys, values;
    for (std::int64_t row = 0; row < operation.rows; ++row) {
        const T* key = qkv.data() + row * stride + query;
        const auto append = [&](std::vector<float>& to, const T* from) {
            for (std::int64_t i = 0; i < width; ++i) {
                to.push_back(static_cast<float>(from[i]));
            }
        };
        append(keys, key);
        append(values, key + width);
    }
    backend.on_kv_gradients(operation, {keys, values});
}

}  // namespace oomb::trainer
