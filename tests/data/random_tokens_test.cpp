#include "trainer/data/random_tokens.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "runtime/core/error.hpp"

namespace oomb::trainer {
namespace {

std::vector<std::int32_t> read(const TokenSource& source, std::int64_t offset, std::int64_t count) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    source.read(offset, tokens);
    return tokens;
}

}  // namespace

TEST_CASE("each token is a function of seed and offset") {
    const auto source = make_random_tokens(3, 1000, 500);
    const std::vector<std::int32_t> whole = read(*source, 0, 500);
    for (const std::int64_t offset : {0, 1, 77, 499}) {
        const std::vector<std::int32_t> part = read(*source, offset, 500 - offset);
        CHECK(std::equal(part.begin(), part.end(), whole.begin() + offset));
    }
    CHECK(read(*make_random_tokens(3, 1000, 500), 0, 500) == whole);
    CHECK(read(*make_random_tokens(4, 1000, 500), 0, 500) != whole);
    CHECK_THROWS_AS(read(*source, 1, 500), InternalError);
}

TEST_CASE("every id of the vocabulary is equally likely, and none beyond it occurs") {
    constexpr std::int64_t kVocabulary = 50, kCount = 500'000;
    std::vector<std::int64_t> counts(kVocabulary);
    for (const std::int32_t token : read(*make_random_tokens(1, kVocabulary, kCount), 0, kCount)) {
        REQUIRE(token >= 0);
        REQUIRE(token < kVocabulary);
        ++counts[static_cast<std::size_t>(token)];
    }
    // Chi-squared with 49 degrees of freedom: mean 49, deviation sqrt(98) = 9.9; five of them.
    constexpr double kExpected = static_cast<double>(kCount) / kVocabulary;
    double chi_squared = 0;
    for (const std::int64_t count : counts) {
        chi_squared += std::pow(static_cast<double>(count) - kExpected, 2) / kExpected;
    }
    CHECK(chi_squared < 49 + 5 * 9.9);
    CHECK(read(*make_random_tokens(1, 1, 10), 0, 10) == std::vector<std::int32_t>(10, 0));
}

}  // namespace oomb::trainer
