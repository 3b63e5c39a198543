#pragma once
// The weights of a Hugging Face model folder, in one safetensors file or in shards with an index.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/weights/safetensors.hpp"

namespace oomb::trainer {

inline constexpr std::string_view kSingleFileName = "model.safetensors";
inline constexpr std::string_view kIndexFileName = "model.safetensors.index.json";

// All shards stay mapped while the folder lives; nothing is copied. Symbolic links (the Hugging Face cache) are
// followed. Thread-safe for reading.
class WeightFolder {
  public:
    // Takes model.safetensors where there is one, else the shards that model.safetensors.index.json names.
    // Throws FileError: no weights, a shard that is missing or lies (see SafetensorsFile), an index that is damaged or
    // names a tensor which its shard lacks, one tensor in two shards.
    static WeightFolder open(const std::filesystem::path& folder);

    const std::filesystem::path& path() const { return folder_; }
    std::vector<const TensorInfo*> list() const;          // by name
    const TensorInfo* find(std::string_view name) const;  // nullptr when there is none
    // Bytes of a tensor, row-major, little-endian, any alignment. Throws FileError when there is no such tensor.
    std::span<const std::byte> bytes(std::string_view name) const;

  private:
    struct Place {
        std::size_t file;
        const TensorInfo* tensor;
    };

    explicit WeightFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
    void add_file(const std::filesystem::path& path);
    void open_shards(const std::filesystem::path& index_path);

    std::filesystem::path folder_;
    std::vector<SafetensorsFile> files_;
    std::map<std::string, Place, std::less<>> places_;
};

}  // namespace oomb::trainer
