#include "trainer/weights/shard_plan.hpp"

#include <algorithm>

#include "runtime/core/checked.hpp"
#include "runtime/core/json.hpp"
#include "trainer/weights/parameters.hpp"

namespace oomb::trainer {
namespace {

std::string header_text(const std::vector<StoredTensor>& tensors) {
    nlohmann::ordered_json json;
    json["__metadata__"]["format"] = "pt";  // transformers refuses files without it
    std::int64_t offset_bytes = 0;
    for (const StoredTensor& tensor : tensors) {
        const std::int64_t end_bytes = offset_bytes + tensor.bytes();
        json[tensor.name] = {{"dtype", safetensors_name(tensor.dtype)},
                             {"shape", tensor.shape},
                             {"data_offsets", {offset_bytes, end_bytes}}};
        offset_bytes = end_bytes;
    }
    std::string text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();
    std::string prefix(sizeof(length), '\0');
    for (std::size_t i = 0; i < prefix.size(); ++i) {
        prefix[i] = static_cast<char>((length >> (8 * i)) & 0xffU);
    }
    return prefix + text;
}

}  // namespace

std::int64_t StoredTensor::bytes() const {
    std::int64_t result = bytes_of(dtype);
    for (const std::int64_t size : shape) {
        result = multiply_checked(result, size, name);
    }
    return result;
}

std::vector<StoredTensor> stored_tensors(const ModelShape& shape, const WeightFolder* source,
                                         std::optional<DType> forced) {
    std::vector<StoredTensor> tensors;
    for (const ParameterInfo& parameter : parameters_of(shape)) {
        const TensorInfo* original = source == nullptr ? nullptr : source->find(parameter.name);
        const DType own = original == nullptr ? shape.stored_dtype : original->dtype.value_or(shape.stored_dtype);
        tensors.push_back({.name = parameter.name, .shape = parameter.shape, .dtype = forced.value_or(own)});
    }
    return tensors;
}

std::vector<Shard> plan_shards(const std::vector<StoredTensor>& tensors, std::int64_t max_shard_bytes) {
    std::vector<Shard> shards(1);
    for (const StoredTensor& tensor : tensors) {
        const std::int64_t bytes = tensor.bytes();
        if (!shards.back().tensors.empty() && bytes > max_shard_bytes - shards.back().data_bytes) {
            shards.emplace_back();
        }
        shards.back().tensors.push_back(tensor);
        shards.back().data_bytes = add_checked(shards.back().data_bytes, bytes, "bytes of the weights");
    }
    for (std::size_t i = 0; i < shards.size(); ++i) {
        Shard& shard = shards[i];
        shard.file_name = shards.size() == 1 ? std::string(kSingleFileName)
                                             : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
        std::stable_sort(shard.tensors.begin(), shard.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
            return bytes_of(a.dtype) > bytes_of(b.dtype);
        });
        shard.header = header_text(shard.tensors);
    }
    return shards;
}

std::string shard_index_text(const std::vector<Shard>& shards) {
    nlohmann::ordered_json index;
    std::int64_t total_bytes = 0;
    for (const Shard& shard : shards) {
        total_bytes = add_checked(total_bytes, shard.data_bytes, "bytes of the weights");
    }
    index["metadata"]["total_size"] = total_bytes;
    for (const Shard& shard : shards) {
        for (const StoredTensor& tensor : shard.tensors) {
            index["weight_map"][tensor.name] = shard.file_name;
        }
    }
    return index.dump(2) + "\n";
}

}  // namespace oomb::trainer
