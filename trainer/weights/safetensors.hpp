#pragma once
// Reading one safetensors file: 8 bytes of header length (little-endian), a JSON header, the tensors' bytes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/dtype.hpp"
#include "trainer/weights/mapped_file.hpp"

namespace oomb::trainer {

struct TensorInfo {
    std::string name;
    std::string dtype_name;           // as the file spells it: "BF16", "F32", "I64", "F8_E4M3"
    std::optional<DType> dtype;       // nothing for types that OOMB does not compute with (integers, 8 bits)
    std::vector<std::int64_t> shape;  // row-major; empty for a scalar
    std::int64_t elements = 0;
    std::int64_t begin_bytes = 0;  // within the file's data section
    std::int64_t end_bytes = 0;
};

// "F64", "F32", "BF16", "F16": the spelling of safetensors headers.
std::string_view safetensors_name(DType type);

// A tensor's name for messages: in quotes, control characters escaped, shortened.
std::string quoted_name(std::string_view name);
// "[2, 3]".
std::string list_text(const std::vector<std::int64_t>& numbers);

// A file whose header has been checked in full: it lies inside the file, is valid JSON without duplicate keys, and the
// tensors' ranges match their types and shapes and cover the data section without gap or overlap.
// Tensor bytes are little-endian and may have any alignment. The mapping lives as long as this object.
class SafetensorsFile {
  public:
    // Longest header that is read, as in the format's reference reader.
    static constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

    // Throws FileError, naming the file and the first thing that is wrong with it.
    static SafetensorsFile open(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return file_.path(); }
    const std::vector<TensorInfo>& tensors() const { return tensors_; }  // by position in the file
    const TensorInfo* find(std::string_view name) const;                 // nullptr when there is none
    std::span<const std::byte> bytes(const TensorInfo& tensor) const;    // of a tensor of this file

  private:
    explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

    MappedFile file_;
    std::int64_t data_begin_bytes_ = 0;
    std::vector<TensorInfo> tensors_;
    std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace oomb::trainer
