#pragma once
// How tensors are laid out in safetensors files, before any is written.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/model_shape.hpp"
#include "trainer/weights/weight_folder.hpp"

namespace oomb::trainer {

struct StoredTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    DType dtype = DType::kBF16;  // on disk

    std::int64_t bytes() const;
};

struct Shard {
    std::string file_name;              // "model.safetensors" or "model-00002-of-00003.safetensors"
    std::vector<StoredTensor> tensors;  // in file order: wide element types first, so that every tensor is aligned
    std::string header;                 // length and JSON, padded with blanks to a multiple of 8 bytes
    std::int64_t data_bytes = 0;

    std::int64_t file_bytes() const { return static_cast<std::int64_t>(header.size()) + data_bytes; }
};

// The default of transformers.
inline constexpr std::int64_t kMaxShardBytes = 5'000'000'000;

// The parameters of a model as they are to be stored: with the types they have in `source`, or shape.stored_dtype
// where `source` is null (random weights); `forced` overrides both.
std::vector<StoredTensor> stored_tensors(const ModelShape& shape, const WeightFolder* source,
                                         std::optional<DType> forced = {});

// Fills shards in the given order; a shard holds at most `max_shard_bytes` of data, or one tensor that is larger.
std::vector<Shard> plan_shards(const std::vector<StoredTensor>& tensors, std::int64_t max_shard_bytes);

// Text of model.safetensors.index.json for more than one shard.
std::string shard_index_text(const std::vector<Shard>& shards);

}  // namespace oomb::trainer
