#pragma once
// A long stream of tokens on disk, read from any place.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace oomb::trainer {

// Reading costs the tokens read, wherever they stand; nothing is loaded beforehand. Thread-safe.
class TokenSource {
  public:
    virtual ~TokenSource() = default;

    virtual const std::string& name() const = 0;     // for messages: the path
    virtual std::int64_t tokens() const = 0;         // at least 1
    virtual std::int64_t element_bytes() const = 0;  // of a token on disk: 1 for byte-level text, else 2 or 4
    // Tokens [offset, offset + out.size()). Throws InternalError when they do not lie within the source and FileError
    // for a token that is no 32-bit id, with its offset.
    virtual void read(std::int64_t offset, std::span<std::int32_t> out) const = 0;
};

// A file name ending in .npy is an array of token ids (see npy.hpp); any other file is text of which every byte is a
// token, 0 to 255, with no tokenizer. Throws FileError when the file is missing, damaged or empty.
std::unique_ptr<TokenSource> open_token_source(const std::filesystem::path& path);

}  // namespace oomb::trainer
