#include "trainer/weights/hf_folder_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/core/checked.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "trainer/weights/mapped_file.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kConfigName = "config.json";
constexpr std::array<std::string_view, 11> kCopiedNames{
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "tekken.json",
    "chat_template.json",
    "chat_template.jinja",
    "generation_config.json",
};

const char* config_name(DType type) {
    switch (type) {
        case DType::kF64:
            return "float64";
        case DType::kF32:
            return "float32";
        case DType::kBF16:
            return "bfloat16";
        case DType::kF16:
            return "float16";
    }
    return "";
}

// The config with its keys in their order, so that a diff shows only what changed.
std::string changed_config(const fs::path& path, const HfFolderRequest& request) {
    const JsonLimits limits;
    const std::string text = read_text_file(path, limits.max_bytes);
    const Json checked = parse_json(text, path.string(), limits);
    JsonNode(checked, path.string()).as_object();
    auto config = nlohmann::ordered_json::parse(text);
    if (request.config_dtype) {
        config[checked.contains("torch_dtype") ? "torch_dtype" : "dtype"] = config_name(*request.config_dtype);
    }
    if (!request.config_changes_json.empty()) {
        config.merge_patch(nlohmann::ordered_json::parse(request.config_changes_json));
    }
    return config.dump(2) + "\n";
}

void check_target(const fs::path& out, const fs::path& parent) {
    std::error_code error;
    if (out.empty()) {
        fail<FileError>("the name of the folder to write is empty");
    }
    if (fs::exists(fs::symlink_status(out, error))) {
        fail<FileError>("{}: exists already and is not overwritten; name another folder, or move this one away",
                        out.string());
    }
    if (!fs::is_directory(parent, error)) {
        fail<FileError>("{}: the folder {} does not exist; create it first", out.string(), parent.string());
    }
    if (::access(parent.c_str(), W_OK | X_OK) != 0) {
        fail<FileError>("{}: the folder {} cannot be written to", out.string(), parent.string());
    }
}

// Removes the partial folder unless it was renamed.
class PartialFolder {
  public:
    explicit PartialFolder(fs::path path) : path_(std::move(path)) {
        std::error_code error;
        fs::remove_all(path_, error);  // left by a crashed process that had our id
        if (!fs::create_directory(path_, error)) {
            fail<FileError>("{}: cannot be created: {}", path_.string(), error.message());
        }
    }
    PartialFolder(const PartialFolder&) = delete;
    PartialFolder& operator=(const PartialFolder&) = delete;
    ~PartialFolder() {
        if (!renamed_) {
            std::error_code error;
            fs::remove_all(path_, error);
        }
    }
    const fs::path& path() const { return path_; }
    void rename_to(const fs::path& out) {
        rename_to_new(path_, out);
        renamed_ = true;
    }

  private:
    fs::path path_;
    bool renamed_ = false;
};

}  // namespace

std::string config_for_context(std::int64_t context_tokens, std::int64_t max_positions) {
    return context_tokens > max_positions ? fmt::format(R"({{"max_position_embeddings": {}}})", context_tokens) : "";
}

HfFolderWriter::HfFolderWriter(HfFolderRequest request, FileCalls calls)
    : request_(std::move(request)), calls_(std::move(calls)) {
    request_.out = without_trailing_slash(request_.out);
    check_target(request_.out, parent_of(request_.out));
    std::error_code error;
    const bool is_folder = fs::is_directory(request_.source, error);
    config_text_ = changed_config(is_folder ? request_.source / kConfigName : request_.source, request_);
    total_bytes_ = static_cast<std::int64_t>(config_text_.size());
    for (const std::string_view name : kCopiedNames) {
        const fs::path path = request_.source / name;
        if (is_folder && fs::is_regular_file(path, error)) {
            copied_files_.push_back(path);
            total_bytes_ += static_cast<std::int64_t>(fs::file_size(path, error));
        }
    }
    shards_ = plan_shards(request_.tensors, request_.max_shard_bytes);
    for (const Shard& shard : shards_) {
        total_bytes_ = add_checked(total_bytes_, shard.file_bytes(), "bytes of the model folder");
    }
    if (shards_.size() > 1) {
        index_text_ = shard_index_text(shards_);
        total_bytes_ += static_cast<std::int64_t>(index_text_.size());
    }
    check_space();
}

void HfFolderWriter::check_space(std::int64_t copies) const {
    const std::int64_t needed_bytes = multiply_checked(total_bytes_, copies, "bytes of the model folders");
    const fs::path parent = parent_of(request_.out);
    const std::int64_t available_bytes = free_bytes(parent);
    if (needed_bytes > available_bytes) {
        fail<DoesNotFitError>(
            "{}: writing the model takes {}, the disk of {} has {} free; free some space or choose "
            "another place",
            request_.out.string(), format_bytes(needed_bytes), parent.string(), format_bytes(available_bytes));
    }
}

void HfFolderWriter::write(const ValuesOf& values_of, const std::string& run_text,
                           const std::function<void(const fs::path&)>& more) const {
    const fs::path parent = parent_of(request_.out);
    check_target(request_.out, parent);
    check_space();
    PartialFolder partial(fmt::format("{}.partial-{}", request_.out.string(), ::getpid()));
    write_files(partial.path(), values_of, run_text);
    if (more) {
        more(partial.path());
    }
    sync_folder(partial.path(), calls_);
    partial.rename_to(request_.out);
    sync_folder(parent, calls_);
}

void HfFolderWriter::write_files(const fs::path& folder, const ValuesOf& values_of, const std::string& run_text) const {
    write_new_text(folder / kConfigName, config_text_, calls_);
    write_new_text(folder / "run.json", run_text, calls_);
    for (const fs::path& source : copied_files_) {
        const MappedFile mapped = MappedFile::open(source);
        OutputFile file(folder / source.filename(), calls_);
        file.write(mapped.bytes());
        file.close();
    }
    for (const Shard& shard : shards_) {
        write_shard(folder, shard, values_of, calls_);
    }
    if (!index_text_.empty()) {
        write_new_text(folder / kIndexFileName, index_text_, calls_);
    }
}

}  // namespace oomb::trainer
