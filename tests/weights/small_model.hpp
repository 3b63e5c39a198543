#pragma once
// A model of a few hundred parameters and its folder.

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "tests/weights/files.hpp"
#include "trainer/weights/parameters.hpp"
#include "trainer/weights/random_weights.hpp"
#include "trainer/weights/shard_plan.hpp"

namespace oomb::trainer {

inline ModelShape small_shape(bool tied = false) {
    ModelShape shape;
    shape.layers = 2;
    shape.hidden = 4;
    shape.query_heads = 2;
    shape.kv_heads = 1;
    shape.head_dim = 2;
    shape.ffn = 6;
    shape.vocab = 10;
    shape.tied_embeddings = tied;
    return shape;
}

struct RawTensor {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
};
using RawTensors = std::map<std::string, RawTensor>;

// Every byte pattern is as good as another where nothing is computed; these differ from tensor to tensor.
inline RawTensors raw_tensors(const ModelShape& shape, const std::string& dtype, std::size_t element_bytes) {
    RawTensors tensors;
    unsigned seed = 1;
    for (const auto& parameter : parameters_of(shape)) {
        std::string bytes(static_cast<std::size_t>(parameter.elements) * element_bytes, '\0');
        for (char& byte : bytes) {
            seed = seed * 1664525U + 1013904223U;
            byte = static_cast<char>((seed >> 24) & 0x3fU);  // never a NaN or an infinity in any of the types
        }
        tensors[parameter.name] = {dtype, parameter.shape, bytes};
    }
    return tensors;
}

inline std::string safetensors_of(const RawTensors& tensors) {
    std::string header;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
        header +=
            fmt::format(R"({}"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", header.empty() ? '{' : ',',
                        name, tensor.dtype, list_text(tensor.shape), data.size(), data.size() + tensor.bytes.size());
        data += tensor.bytes;
    }
    return safetensors(header + "}", data);
}

}  // namespace oomb::trainer
