// The attention mass of pages against its definition in float64, and recall of tables whose sums are known.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "kernels/cpu/page_selection.hpp"
#include "tests/kernels/compare.hpp"

namespace oomb::kernels::test {
namespace {

constexpr std::int64_t kHeads = 6, kKvHeads = 2, kDim = 16, kPage = 8, kPages = 3, kTokens = 13, kAllPages = 5;

// Pages lie backwards among frames; the window is the last three of five pages.
template <class T>
double error_of_mass() {
    using A = Accumulator<T>;
    const auto q = random_values<T>(kTokens * kHeads * kDim, 1),
               k = random_values<T>(kPages * kPage * kKvHeads * kDim, 2);
    const auto lse = random_values<A>(kTokens * kHeads, 3);
    const auto q_stored = narrow<T>(q), k_stored = narrow<T>(k);
    const auto lse_stored = narrow<A>(lse);
    std::vector<T> slab(k_stored.size());
    const std::array<std::int32_t, kPages> frames = {2, 1, 0};
    const std::int64_t page_elements = kPage * kKvHeads * kDim;
    for (std::int64_t page = 0; page < kPages; ++page) {
        std::copy_n(k_stored.begin() + page * page_elements, page_elements,
                    slab.begin() + frames[page] * page_elements);
    }
    std::vector<A> mass(2 * kAllPages, A(-1));
    cpu::page_mass<T>({.q = q_stored.data(),
                       .lse = lse_stored.data(),
                       .kv = {.k_slab = slab.data(),
                              .frames = frames.data(),
                              .page_tokens = kPage,
                              .kv_heads = kKvHeads,
                              .head_dim = kDim,
                              .tokens = kPages * kPage},
                       .mass = mass.data() + 2,
                       .tokens = kTokens,
                       .pages = kAllPages,
                       .query_heads = kHeads,
                       .scale = 0.25});
    std::vector<double> found, expected(2 * kPages, 0.0);
    for (std::int64_t row = 0; row < 2; ++row) {
        CHECK(mass[row * kAllPages] == A(-1));  // pages of other windows
        CHECK(mass[row * kAllPages + 1] == A(-1));
        for (std::int64_t page = 0; page < kPages; ++page) {
            found.push_back(static_cast<double>(mass[row * kAllPages + 2 + page]));
        }
    }
    for (std::int64_t row = 0; row < kTokens * kHeads; ++row) {
        for (std::int64_t key = 0; key < kPages * kPage; ++key) {
            double product = 0;
            for (std::int64_t i = 0; i < kDim; ++i) {
                product += q[row * kDim + i] * k[(key * kKvHeads + row % kHeads / 3) * kDim + i];
            }
            expected[row / kHeads / kPage * kPages + key / kPage] += std::exp(0.25 * product - lse[row]);
        }
    }
    return relative_error(found, expected);
}

// An exponent is a sum of 16 products, below 16 in size: off by some 32 roundoffs of 16, as is, relative, its power.
TEST_CASE("page mass is the sum of the softmax over the page's keys") {
    CHECK(error_of_mass<double>() < 512 * kRoundoff<double>);
    CHECK(error_of_mass<float>() < 512 * kRoundoff<float>);
    CHECK(error_of_mass<BFloat16>() < 512 * kRoundoff<float>);
}

// Two pages of queries, of 4 tokens and 1, over five pages.
TEST_CASE("recall of tables: by score, the best, the latest, by chance, and distances") {
    const std::vector<double> scores = {1, 5, 2, 5, 0, 0, 0, 0, 0, 9};
    const std::vector<double> mass = {1, 0, 3, 2, 0.5, 0.25, 0, 0, 0, 0.5};
    const std::int64_t budgets[] = {1, 3, 5};
    std::vector<RecallSums> sums(3);
    sums[0].by_score = 100;  // is added to
    cpu::page_recall<double>({.scores = scores.data(),
                              .mass = mass.data(),
                              .budgets = budgets,
                              .sums = sums.data(),
                              .count = 3,
                              .tokens = 5,
                              .page_tokens = 4,
                              .pages = 5,
                              .query_heads = 2});
    CHECK(sums[0].query_pages == 2);
    CHECK(sums[0].all_mass == 2 * 5);
    CHECK(sums[0].history_mass == 6.5 + 0.75);
    CHECK(sums[0].by_score == 100 + 0 + 0.5);  // page 1, of equals the lower; page 4
    CHECK(sums[0].by_mass == 3 + 0.5);
    CHECK(sums[0].by_recency == 0.5 + 0.5);
    CHECK(sums[0].by_chance == doctest::Approx(7.25 / 5));
    CHECK(sums[0].distances[2] == 1);  // page 1 is 4 before the chunk
    CHECK(sums[0].distances[0] == 1);
    CHECK(sums[1].by_score == (0 + 2 + 3) + (0.5 + 0.25 + 0));  // pages 1, 3, 2; pages 4, 0, 1
    CHECK(sums[1].by_mass == (3 + 2 + 1) + 0.75);
    CHECK(sums[1].by_recency == (3 + 2 + 0.5) + 0.5);
    CHECK(sums[1].distances[1] == 2);  // distances 4, 2, 3 and 1, 5, 4
    CHECK(sums[1].distances[2] == 3);
    CHECK(sums[2].query_pages == 0);  // no more pages than that
}

TEST_CASE("scores that are no numbers come last") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> scores = {nan, 1, nan, 2}, mass = {1, 2, 4, 8};
    const std::int64_t budget = 2;
    RecallSums sums;
    cpu::page_recall<double>({.scores = scores.data(),
                              .mass = mass.data(),
                              .budgets = &budget,
                              .sums = &sums,
                              .count = 1,
                              .tokens = 1,
                              .page_tokens = 1,
                              .pages = 4,
                              .query_heads = 1});
    CHECK(sums.by_score == 10);
}

}  // namespace
}  // namespace oomb::kernels::test
