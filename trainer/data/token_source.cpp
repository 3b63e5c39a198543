#include "trainer/data/token_source.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/core/error.hpp"
#include "trainer/data/npy.hpp"
#include "trainer/weights/mapped_file.hpp"

namespace oomb::trainer {
namespace {

// What both kinds of file share: a mapping and elements of one size, little-endian, any alignment.
template <class Element>
class MappedTokens : public TokenSource {
  public:
    MappedTokens(MappedFile file, std::int64_t begin_bytes, std::int64_t tokens)
        : file_(std::move(file)), name_(file_.path().string()), begin_bytes_(begin_bytes), tokens_(tokens) {}

    const std::string& name() const override { return name_; }
    std::int64_t tokens() const override { return tokens_; }
    std::int64_t element_bytes() const override { return kElementBytes; }

    void read(std::int64_t offset, std::span<std::int32_t> out) const override {
        const auto count = static_cast<std::int64_t>(out.size());
        require(offset >= 0 && offset <= tokens_ && count <= tokens_ - offset, "{}: tokens [{}, {} + {}) of {}", name_,
                offset, offset, count, tokens_);
        const std::byte* source = file_.bytes().data() + begin_bytes_ + offset * kElementBytes;
        for (std::int64_t i = 0; i < count; ++i) {
            Element token;
            std::memcpy(&token, source + i * kElementBytes, sizeof(token));
            if (!std::in_range<std::int32_t>(token)) {
                fail<FileError>("{}: token {} at offset {} is no token id (the largest is {})", name_,
                                static_cast<std::uint64_t>(token), offset + i,
                                std::numeric_limits<std::int32_t>::max());
            }
            out[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(token);
        }
    }

  private:
    static constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(Element));

    MappedFile file_;
    std::string name_;
    std::int64_t begin_bytes_;
    std::int64_t tokens_;
};

std::unique_ptr<TokenSource> open_npy(MappedFile file) {
    const NpyTokens npy = parse_npy(file.bytes(), file.path().string());
    if (npy.tokens == 0) {
        fail<FileError>("{}: holds no tokens", file.path().string());
    }
    if (npy.element_bytes == 2) {
        return std::make_unique<MappedTokens<std::uint16_t>>(std::move(file), npy.data_begin_bytes, npy.tokens);
    }
    return std::make_unique<MappedTokens<std::uint32_t>>(std::move(file), npy.data_begin_bytes, npy.tokens);
}

}  // namespace

bool is_byte_level(const std::filesystem::path& path) {
    return path.extension() != ".npy";
}

std::unique_ptr<TokenSource> open_token_source(const std::filesystem::path& path) {
    MappedFile file = MappedFile::open(path);
    if (file.bytes().empty()) {
        fail<FileError>("{}: the file is empty", path.string());
    }
    if (path.extension() == ".npy") {
        return open_npy(std::move(file));
    }
    const auto tokens = static_cast<std::int64_t>(file.bytes().size());
    return std::make_unique<MappedTokens<std::uint8_t>>(std::move(file), 0, tokens);
}

}  // namespace oomb::trainer
