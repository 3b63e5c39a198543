#pragma once
// Writing a Hugging Face model folder: the weights as trained, everything else as it came.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/weights/shard_writer.hpp"

namespace oomb::trainer {

struct HfFolderRequest {
    // A model folder: config.json and, where present, the tokenizer and generation files are copied from it.
    // Or a config.json alone.
    std::filesystem::path source;
    std::filesystem::path out;          // must not exist; its parent must
    std::vector<StoredTensor> tensors;  // see stored_tensors
    std::string config_changes_json;    // JSON merge patch (RFC 7396) for config.json; empty for none
    std::optional<DType> config_dtype;  // written as the config's dtype, when `tensors` have another than the source
    std::int64_t max_shard_bytes = kMaxShardBytes;
};

// HfFolderRequest::config_changes_json of a model that was trained over `context_tokens`: so many positions, if it has
// fewer; else empty.
std::string config_for_context(std::int64_t context_tokens, std::int64_t max_positions);

// Everything is written into `<out>.partial-<process id>` beside `out`, flushed, and renamed at the end, so `out` is
// either absent or whole. A failure removes the partial folder; a crash leaves it, and nothing reads it again.
// Needs a few MiB beside the caller's tensors. One thread at a time.
class HfFolderWriter {
  public:
    // Lays out the files and checks what can be checked before training. Throws FileError when `out` exists, its parent
    // is missing or not writable, or the source has no readable config.json; DoesNotFitError as check_space.
    explicit HfFolderWriter(HfFolderRequest request, FileCalls calls = FileCalls::system());

    std::int64_t total_bytes() const { return total_bytes_; }  // of all files, run.json left out
    // Throws DoesNotFitError when the disk has fewer than `copies` x total_bytes() to spare.
    void check_space(std::int64_t copies = 1) const;

    // Writes the folder; `values_of` is called once for each tensor, in file order. `run_text` becomes run.json. `more`
    // then writes what else belongs into the folder that it is given, before all of it gets its name. Throws as
    // write_shard(), and whatever `more` throws.
    void write(const ValuesOf& values_of, const std::string& run_text,
               const std::function<void(const std::filesystem::path&)>& more = {}) const;

  private:
    void write_files(const std::filesystem::path& folder, const ValuesOf& values_of, const std::string& run_text) const;

    HfFolderRequest request_;
    FileCalls calls_;
    std::string config_text_;
    std::vector<std::filesystem::path> copied_files_;
    std::vector<Shard> shards_;
    std::string index_text_;  // empty for a single file
    std::int64_t total_bytes_ = 0;
};

}  // namespace oomb::trainer
