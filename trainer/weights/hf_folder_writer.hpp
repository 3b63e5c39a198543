#pragma once
// Writing a Hugging Face model folder: the weights as trained, everything else as it came.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/weights/output_file.hpp"
#include "trainer/weights/shard_plan.hpp"

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

// Values of one tensor, row-major; the memory is the caller's and is read before the next tensor is asked for.
struct TensorValues {
    std::span<const std::byte> bytes;
    DType dtype = DType::kF32;

    TensorValues(std::span<const std::byte> raw, DType type) : bytes(raw), dtype(type) {}
    explicit TensorValues(std::span<const float> values) : bytes(std::as_bytes(values)), dtype(DType::kF32) {}
    explicit TensorValues(std::span<const double> values) : bytes(std::as_bytes(values)), dtype(DType::kF64) {}
    explicit TensorValues(std::span<const BFloat16> values) : bytes(std::as_bytes(values)), dtype(DType::kBF16) {}
};

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

    // Writes the folder; `values_of` is called once for each tensor, in file order. `run_text` becomes run.json.
    // Throws FileError when a write fails, NumericError when a finite value has no finite counterpart in the stored
    // type, and whatever `values_of` throws.
    void write(const std::function<TensorValues(const StoredTensor&)>& values_of, const std::string& run_text) const;

  private:
    void write_files(const std::filesystem::path& folder,
                     const std::function<TensorValues(const StoredTensor&)>& values_of,
                     const std::string& run_text) const;
    void write_shard(const std::filesystem::path& folder, const Shard& shard,
                     const std::function<TensorValues(const StoredTensor&)>& values_of) const;

    HfFolderRequest request_;
    FileCalls calls_;
    std::string config_text_;
    std::vector<std::filesystem::path> copied_files_;
    std::vector<Shard> shards_;
    std::string index_text_;  // empty for a single file
    std::int64_t total_bytes_ = 0;
};

}  // namespace oomb::trainer
