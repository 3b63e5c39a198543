#include "trainer/data/random_tokens.hpp"

#include <limits>

#include "runtime/core/error.hpp"
#include "runtime/core/splitmix.hpp"

namespace oomb::trainer {
namespace {

class RandomTokens : public TokenSource {
  public:
    RandomTokens(std::uint64_t seed, std::int64_t vocabulary, std::int64_t tokens)
        : key_(stream_key(seed, "tokens")), vocabulary_(static_cast<std::uint64_t>(vocabulary)), tokens_(tokens) {}

    const std::string& name() const override { return name_; }
    std::int64_t tokens() const override { return tokens_; }
    std::int64_t element_bytes() const override { return sizeof(std::int32_t); }

    void read(std::int64_t offset, std::span<std::int32_t> out) const override {
        const auto count = static_cast<std::int64_t>(out.size());
        require(offset >= 0 && offset <= tokens_ && count <= tokens_ - offset, "{}: tokens [{}, {} + {}) of {}", name_,
                offset, offset, count, tokens_);
        // The upper 32 bits as a fraction of the vocabulary: no id is more likely than another by more than
        // vocabulary / 2^32.
        constexpr int kHalfBits = 32;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::uint64_t bits = random_bits(key_, static_cast<std::uint64_t>(offset + i)) >> kHalfBits;
            out[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((bits * vocabulary_) >> kHalfBits);
        }
    }

  private:
    const std::string name_ = "random tokens";
    std::uint64_t key_;
    std::uint64_t vocabulary_;
    std::int64_t tokens_;
};

}  // namespace

std::unique_ptr<TokenSource> make_random_tokens(std::uint64_t seed, std::int64_t vocabulary, std::int64_t tokens) {
    require(vocabulary >= 1 && vocabulary <= std::numeric_limits<std::int32_t>::max() && tokens >= 1,
            "random tokens: {} ids, {} tokens", vocabulary, tokens);
    return std::make_unique<RandomTokens>(seed, vocabulary, tokens);
}

}  // namespace oomb::trainer
