#pragma once
// What a checkpoint says of a run beside its tensors: checkpoint.json (docs/checkpoints.md).

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/data/sequence_reader.hpp"

namespace oomb::trainer {

inline constexpr std::string_view kCheckpointFile = "checkpoint.json";

struct CheckpointFacts {
    std::int64_t step = 0;       // optimizer steps that are done, at least 1
    std::int64_t sequences = 0;  // trained on
    double last_loss = 0.0;      // of that step
    std::string data_file;       // as given
    std::string data_fingerprint;
    DataCursor cursor;
    std::map<std::string, std::string> settings;        // flags that change results
    std::map<std::string, std::string> checksums = {};  // of tensors, by name
};

// 16 hexadecimal digits: XXH3 of 64 pieces of 1,024 tokens spread evenly over the source, or of all of a short one.
std::string fingerprint_of(const TokenSource& source);

// 16 hexadecimal digits: XXH3 of the bytes.
std::string checksum_of(std::span<const std::byte> bytes);

std::string to_json(const CheckpointFacts& facts);

// Throws FileError: missing, damaged, another format or version.
CheckpointFacts read_checkpoint_facts(const std::filesystem::path& file);

// A line for each setting that differs, for the user: "--learning-rate is 1e-4 now and was 1e-5".
std::vector<std::string> changed_settings(const CheckpointFacts& facts, const std::map<std::string, std::string>& now);

}  // namespace oomb::trainer
