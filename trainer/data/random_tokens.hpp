#pragma once
// Tokens without data, for runs that measure a step.

#include <memory>

#include "trainer/data/token_source.hpp"

namespace oomb::trainer {

// `tokens` ids, uniform over [0, vocabulary); each is a function of (seed, offset) alone. Nothing is stored.
std::unique_ptr<TokenSource> make_random_tokens(std::uint64_t seed, std::int64_t vocabulary, std::int64_t tokens);

}  // namespace oomb::trainer
