#pragma once
// The JSON file beside a token file (`tokens.npy.json`), written by tools/tokenize.py.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/token_source.hpp"

namespace oomb::trainer {

struct TokenSidecar {
    // Document i is tokens [offsets[i], offsets[i + 1]); empty when the sidecar only counts the documents.
    std::vector<std::int64_t> document_offsets;
    std::int64_t documents = 0;
    std::string tokenizer_sha256;              // of the tokenizer.json that was used; empty when not recorded
    std::optional<std::int64_t> eos_token_id;  // appended after each document
};

// The sidecar of a token file, checked against it; nothing when there is none. Throws FileError for a damaged sidecar,
// another format_version, and where tokens, dtype or document offsets contradict the token file.
std::optional<TokenSidecar> read_sidecar(const std::filesystem::path& token_file, const TokenSource& source);

enum class TokenizerCheck : std::uint8_t {
    kSame,
    kNotRecorded,         // the sidecar has no hash
    kModelHasNoTokenizer  // the model folder has no tokenizer.json
};

// Compares the hash in the sidecar with the model's tokenizer.json. Throws FileError when they differ: the token ids
// would mean other words. What could not be compared is returned, for the caller to say so.
TokenizerCheck check_tokenizer(const TokenSidecar& sidecar, const std::filesystem::path& token_file,
                               const std::filesystem::path& model_folder);

}  // namespace oomb::trainer
