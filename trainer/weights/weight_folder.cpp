#include "trainer/weights/weight_folder.hpp"

#include <set>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxIndexBytes = 100'000'000;

// tensor name -> shard file name, as the index states it.
std::map<std::string, std::string> read_index(const fs::path& path) {
    const Json index = read_json_file(path, {.max_bytes = kMaxIndexBytes, .max_depth = 8});
    const JsonNode weight_map = JsonNode(index, path.string()).at("weight_map");
    std::map<std::string, std::string> shards;
    for (const auto& [tensor, value] : weight_map.as_object().value().items()) {
        const std::string shard = weight_map.at(tensor).as_string();
        // An index must not lead out of its folder.
        const bool is_plain = !shard.empty() && shard != "." && shard != ".." && shard.find('/') == std::string::npos &&
                              shard.find('\0') == std::string::npos;
        if (!is_plain) {
            fail<FileError>("{}: shard {} of tensor {} is not a plain file name", path.string(), quoted_name(shard),
                            quoted_name(tensor));
        }
        shards.emplace(tensor, shard);
    }
    if (shards.empty()) {
        fail<FileError>("{}: weight_map names no tensor", path.string());
    }
    return shards;
}

}  // namespace

WeightFolder WeightFolder::open(const fs::path& folder) {
    WeightFolder result(folder);
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
        fail<FileError>("{}: not a folder; expected a model folder with config.json and safetensors", folder.string());
    }
    if (fs::exists(folder / kSingleFileName, error)) {
        result.add_file(folder / kSingleFileName);
    } else if (fs::exists(folder / kIndexFileName, error)) {
        result.open_shards(folder / kIndexFileName);
    } else {
        fail<FileError>("{}: neither {} nor {}; weights in other formats must be saved as safetensors first",
                        folder.string(), kSingleFileName, kIndexFileName);
    }
    return result;
}

void WeightFolder::add_file(const fs::path& path) {
    files_.push_back(SafetensorsFile::open(path));
    const std::size_t file = files_.size() - 1;
    for (const TensorInfo& tensor : files_.back().tensors()) {
        const auto [place, is_new] = places_.emplace(tensor.name, Place{file, &tensor});
        if (!is_new) {
            fail<FileError>("{}: tensor {} is also in {}", path.string(), quoted_name(tensor.name),
                            files_[place->second.file].path().filename().string());
        }
    }
}

void WeightFolder::open_shards(const fs::path& index_path) {
    const auto shards = read_index(index_path);
    std::set<std::string> file_names;
    for (const auto& [tensor, shard] : shards) {
        file_names.insert(shard);
    }
    for (const std::string& name : file_names) {
        std::error_code error;
        if (!fs::exists(folder_ / name, error)) {
            fail<FileError>("{}: shard {} is missing; {} names {} shards", folder_.string(), quoted_name(name),
                            kIndexFileName, file_names.size());
        }
        add_file(folder_ / name);
    }
    for (const auto& [tensor, shard] : shards) {
        const auto place = places_.find(tensor);
        if (place == places_.end() || files_[place->second.file].path().filename() != shard) {
            fail<FileError>("{}: tensor {} should be in shard {}, which lacks it", index_path.string(),
                            quoted_name(tensor), quoted_name(shard));
        }
    }
}

std::vector<const TensorInfo*> WeightFolder::list() const {
    std::vector<const TensorInfo*> tensors;
    for (const auto& [name, place] : places_) {
        tensors.push_back(place.tensor);
    }
    return tensors;
}

const TensorInfo* WeightFolder::find(std::string_view name) const {
    const auto place = places_.find(name);
    return place == places_.end() ? nullptr : place->second.tensor;
}

std::span<const std::byte> WeightFolder::bytes(std::string_view name) const {
    const auto place = places_.find(name);
    if (place == places_.end()) {
        fail<FileError>("{}: no tensor {}", folder_.string(), quoted_name(name));
    }
    return files_[place->second.file].bytes(*place->second.tensor);
}

}  // namespace oomb::trainer
