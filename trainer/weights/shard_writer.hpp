#pragma once
// Tensors into safetensors files whose layout stands.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "trainer/weights/output_file.hpp"
#include "trainer/weights/shard_plan.hpp"

namespace oomb::trainer {

// Values of one tensor, row-major; the memory is the caller's and is read before the next tensor is asked for.
struct TensorValues {
    std::span<const std::byte> bytes;
    DType dtype = DType::kF32;

    TensorValues(std::span<const std::byte> raw, DType type) : bytes(raw), dtype(type) {}
    explicit TensorValues(std::span<const float> values) : bytes(std::as_bytes(values)), dtype(DType::kF32) {}
    explicit TensorValues(std::span<const double> values) : bytes(std::as_bytes(values)), dtype(DType::kF64) {}
    explicit TensorValues(std::span<const BFloat16> values) : bytes(std::as_bytes(values)), dtype(DType::kBF16) {}
};

using ValuesOf = std::function<TensorValues(const StoredTensor&)>;

// Writes <folder>/<shard.file_name>; `values_of` is called once for each tensor, in file order. Throws FileError when a
// write fails, NumericError when a finite value has no finite counterpart in the stored type, and whatever `values_of`
// throws.
void write_shard(const std::filesystem::path& folder, const Shard& shard, const ValuesOf& values_of,
                 const FileCalls& calls);

// A new file with this text, flushed. Throws FileError.
void write_new_text(const std::filesystem::path& path, std::string_view text, const FileCalls& calls);

}  // namespace oomb::trainer
