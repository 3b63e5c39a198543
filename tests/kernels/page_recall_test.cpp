// The attention mass of pages against its definition in float64, and recall of tables whose sums are known.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/kernels/attention_case.hpp"
#include "tests/kernels/implementations.hpp"

namespace oomb::kernels::test {
namespace {

// The window is the last `window_pages` of `pages`, its frames out of order.
struct MassCase {
    std::int64_t query_heads, kv_heads, head_dim, page_tokens, tokens, window_pages, pages;
};

// Groups of 3 and 1; ragged last query pages; then what a GPU kernel takes in more than one tile: pages beyond 64
// tokens, heads beyond 16 numbers.
const std::vector<MassCase> kMassCases = {
    {6, 2, 16, 8, 13, 3, 5}, {2, 2, 8, 1, 5, 4, 4}, {3, 1, 64, 128, 200, 2, 3}, {4, 2, 20, 100, 100, 1, 1}};
constexpr double kScale = 0.25;

template <class Set>
double error_of_mass(const MassCase& c) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    const std::int64_t keys = c.window_pages * c.page_tokens, group = c.query_heads / c.kv_heads, dim = c.head_dim;
    const std::int64_t query_pages = (c.tokens + c.page_tokens - 1) / c.page_tokens, before = c.pages - c.window_pages;
    // Products of 16 numbers have a deviation of 4; wider rows get narrower numbers.
    const double spread = std::sqrt(std::min(1.0, 16.0 / static_cast<double>(dim)));
    const auto q = random_values<T>(c.tokens * c.query_heads * dim, 1, spread),
               k = random_values<T>(keys * c.kv_heads * dim, 2);
    const auto lse = random_values<A>(c.tokens * c.query_heads, 3);
    const AttentionCase window{.tokens = c.tokens,
                               .query_heads = c.query_heads,
                               .kv_heads = c.kv_heads,
                               .head_dim = dim,
                               .keys = keys,
                               .page_tokens = c.page_tokens,
                               .cuts = {},
                               .mask = {}};
    PagedWindow<Set, T> kv(window, 0, keys, 3);
    kv.fill(k, std::vector<double>(k.size(), std::numeric_limits<double>::quiet_NaN()));
    BufferOf<Set, T> queries(narrow<T>(q));
    BufferOf<Set, A> sums(narrow<A>(lse)), mass(std::vector<A>(query_pages * c.pages, A(-1)));
    Set::page_mass({.q = queries.data(),
                    .lse = sums.data(),
                    .kv = kv.template view<const T>(),
                    .mass = mass.data() + before,
                    .tokens = c.tokens,
                    .pages = c.pages,
                    .query_heads = c.query_heads,
                    .scale = kScale});
    std::vector<double> found, expected(query_pages * c.window_pages, 0.0);
    const std::vector<double> table = widen(mass.values());
    for (std::int64_t i = 0; i < query_pages * c.pages; ++i) {
        if (i % c.pages < before) {
            CHECK(table[i] == -1);  // pages of other windows
        } else {
            found.push_back(table[i]);
        }
    }
    for (std::int64_t row = 0; row < c.tokens * c.query_heads; ++row) {
        for (std::int64_t key = 0; key < keys; ++key) {
            const double* of_query = q.data() + row * dim;
            const double* of_key = k.data() + (key * c.kv_heads + row % c.query_heads / group) * dim;
            const double product = std::inner_product(of_query, of_query + dim, of_key, 0.0);
            expected[row / c.query_heads / c.page_tokens * c.window_pages + key / c.page_tokens] +=
                std::exp(kScale * product - lse[row]);
        }
    }
    return relative_error(found, expected);
}

// An exponent is a sum of up to 64 products whose magnitudes add up to 32 at most, a quarter of which counts, beside a
// log-sum-exp: off by up to 64 roundoffs of 8, as is, relative, its power. In a sum of 10^4 or more powers in one order
// such errors mostly cancel; its own rounding adds less than what is left.
TEST_CASE_TEMPLATE("page mass is the sum of the softmax over the page's keys", Set, OOMB_KERNEL_SETS) {
    for (const MassCase& c : kMassCases) {
        CAPTURE(c.page_tokens);
        CAPTURE(c.head_dim);
        CHECK(error_of_mass<Set>(c) < 512 * kRoundoff<Accumulator<typename Set::Storage>>);
    }
}

template <class Set>
using AccumulatorOf = Accumulator<typename Set::Storage>;

struct RecallCase {
    std::vector<double> scores, mass;  // [rows, pages]
    std::vector<std::int64_t> budgets;
    std::int64_t tokens, page_tokens, pages, query_heads;
};

template <class Set>
std::vector<RecallSums> recall_of(const RecallCase& c, std::vector<RecallSums> before) {
    using A = AccumulatorOf<Set>;
    BufferOf<Set, A> scores(narrow<A>(c.scores)), mass(narrow<A>(c.mass));
    BufferOf<Set, RecallSums> sums(std::move(before));
    Set::page_recall({.scores = scores.data(),
                      .mass = mass.data(),
                      .budgets = c.budgets.data(),
                      .sums = sums.data(),
                      .count = std::ssize(c.budgets),
                      .tokens = c.tokens,
                      .page_tokens = c.page_tokens,
                      .pages = c.pages,
                      .query_heads = c.query_heads});
    return sums.values();
}

// Two pages of queries, of 4 tokens and 1, over five pages.
TEST_CASE_TEMPLATE("recall of tables: by score, the best, the latest, by chance, and distances", Set,
                   OOMB_KERNEL_SETS) {
    std::vector<RecallSums> sums(3);
    sums[0].by_score = 100;  // is added to
    sums = recall_of<Set>({.scores = {1, 5, 2, 5, 0, 0, 0, 0, 0, 9},
                           .mass = {1, 0, 3, 2, 0.5, 0.25, 0, 0, 0, 0.5},
                           .budgets = {1, 3, 5},
                           .tokens = 5,
                           .page_tokens = 4,
                           .pages = 5,
                           .query_heads = 2},
                          sums);
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

TEST_CASE_TEMPLATE("scores that are no numbers come last", Set, OOMB_KERNEL_SETS) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto sums = recall_of<Set>({.scores = {nan, 1, nan, 2},
                                      .mass = {1, 2, 4, 8},
                                      .budgets = {2},
                                      .tokens = 1,
                                      .page_tokens = 1,
                                      .pages = 4,
                                      .query_heads = 1},
                                     std::vector<RecallSums>(1));
    CHECK(sums[0].by_score == 10);
}

// Against sorted tables: more pages than a block of a GPU kernel has threads, equal values among them.
TEST_CASE_TEMPLATE("recall of large random tables", Set, OOMB_KERNEL_SETS) {
    constexpr std::int64_t kRows = 3, kPages = 2'500;
    std::mt19937 random(9);
    RecallCase c{.scores = {},
                 .mass = {},
                 .budgets = {1, 7, 64, 2'499},
                 .tokens = 10,
                 .page_tokens = 4,
                 .pages = kPages,
                 .query_heads = 3};
    for (std::int64_t i = 0; i < kRows * kPages; ++i) {
        c.scores.push_back(static_cast<double>(random() % 500));
        c.mass.push_back(static_cast<double>(random() % 500) / 64);  // sums are exact
    }
    const auto found = recall_of<Set>(c, std::vector<RecallSums>(c.budgets.size()));
    for (std::size_t i = 0; i < c.budgets.size(); ++i) {
        RecallSums expected;
        for (std::int64_t row = 0; row < kRows; ++row) {
            const double *scores = c.scores.data() + row * kPages, *mass = c.mass.data() + row * kPages;
            const auto order = [](const double* values) {
                std::vector<std::int64_t> pages(kPages);
                std::iota(pages.begin(), pages.end(), 0);
                std::stable_sort(pages.begin(), pages.end(), [&](auto a, auto b) { return values[a] > values[b]; });
                return pages;
            };
            const auto by_score = order(scores), by_mass = order(mass);
            for (std::int64_t rank = 0; rank < c.budgets[i]; ++rank) {
                expected.by_score += mass[by_score[rank]];
                expected.by_mass += mass[by_mass[rank]];
                expected.by_recency += mass[kPages - 1 - rank];
                expected.distances[std::bit_width(static_cast<std::uint64_t>(kPages - by_score[rank])) - 1] += 1;
            }
            expected.history_mass += std::accumulate(mass, mass + kPages, 0.0);
        }
        CHECK(found[i].query_pages == kRows);
        CHECK(found[i].all_mass == 10 * 3);
        CHECK(found[i].history_mass == expected.history_mass);
        CHECK(found[i].by_score == expected.by_score);
        CHECK(found[i].by_mass == expected.by_mass);
        CHECK(found[i].by_recency == expected.by_recency);
        CHECK(found[i].by_chance ==
              doctest::Approx(expected.history_mass * static_cast<double>(c.budgets[i]) / kPages));
        CHECK(std::equal(std::begin(expected.distances), std::end(expected.distances), std::begin(found[i].distances)));
    }
}

}  // namespace
}  // namespace oomb::kernels::test
