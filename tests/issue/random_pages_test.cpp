// Lists drawn at random: valid, the same whoever asks for them in which order, every page alike.
#include "runtime/issue/random_pages.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace oomb::issue {
namespace {

schedule::StepShape step_of(std::int64_t pages, std::uint64_t seed, std::int64_t context = 4000) {
    ModelShape model;
    model.layers = 3;
    RunConfiguration run;
    run.context_tokens = context;
    run.chunk_tokens = 64;
    run.page_tokens = 8;
    run.window_tokens = 512;
    run.attention = AttentionMode::kRandom;
    run.top_k = pages;
    run.page_seed = seed;
    return {model, run};
}

TEST_CASE("lists are what the issuer takes, for any K up to all pages but one") {
    for (const std::int64_t pages : {1, 2, 7, 15}) {
        const schedule::StepShape step = step_of(pages, 3);
        RandomPages source(step);
        for (std::int64_t chunk = step.first_listed_chunk(); chunk < step.chunks(); ++chunk) {
            const std::int64_t first = step.first_page(chunk), count = step.pages_of(chunk);
            CHECK_NOTHROW(checked_lists(source.page_lists(1, first, count, 0), 1, first, count, pages, first));
        }
    }
}

TEST_CASE("draws are a function of seed, sequence, layer and query page") {
    const schedule::StepShape step = step_of(4, 3);
    RandomPages source(step), other(step), seeded(step_of(4, 4));
    const auto all = source.page_lists(1, 64, 8, 0);
    const auto last = other.page_lists(1, 71, 1, 0);
    CHECK(std::equal(last.begin(), last.end(), all.end() - 4));
    CHECK(source.page_lists(1, 64, 8, 7) == all);
    CHECK(source.page_lists(2, 64, 8, 0) != all);
    CHECK(seeded.page_lists(1, 64, 8, 0) != all);
    source.next_sequence();
    CHECK(source.page_lists(1, 64, 8, 0) != all);
}

// Each of the n = 24 pages is in a list with probability 5 / 24: over 20,000 lists a count is within five standard
// deviations of its mean but once in a million pages. Pairs of neighbours are as likely as others.
TEST_CASE("every page and every pair is drawn as often as the others") {
    constexpr std::int64_t kPages = 24, kDrawn = 5, kLists = 20000;
    const schedule::StepShape step = step_of(kDrawn, 11);
    RandomPages source(step);
    std::vector<std::int64_t> single(kPages), pair(kPages - 1);
    for (std::int64_t i = 0; i < kLists; ++i) {
        const auto list = source.page_lists(0, kPages, 1, 0);
        for (std::size_t j = 0; j < list.size(); ++j) {
            ++single[list[j]];
            if (j > 0 && list[j] == list[j - 1] + 1) {
                ++pair[list[j - 1]];
            }
        }
        source.next_sequence();
    }
    const auto check = [&](const std::vector<std::int64_t>& counts, double probability) {
        const double mean = kLists * probability, deviation = std::sqrt(mean * (1 - probability));
        for (const std::int64_t count : counts) {
            CHECK(std::abs(static_cast<double>(count) - mean) < 5 * deviation);
        }
    };
    check(single, 5.0 / 24);
    check(pair, 5.0 / 24 * 4 / 23);
}

}  // namespace
}  // namespace oomb::issue
