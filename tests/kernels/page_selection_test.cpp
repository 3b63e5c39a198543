// Means, scores and lists of pages against float64.
#include <doctest/doctest.h>

#include <functional>
#include <numeric>

#include "kernels/page_selection.hpp"
#include "runtime/core/error.hpp"
#include "tests/kernels/attention_case.hpp"
#include "tests/kernels/implementations.hpp"

namespace oomb::kernels::test {
namespace {

struct SelectionCase {
    std::int64_t query_heads, kv_heads, head_dim, page_tokens, pages, tokens;
    double spread = 1.0;  // of queries and keys
};

// Groups of 1, 3 and 7; a ragged last query page; one page; sharp softmaxes. Then what a GPU kernel takes in more than
// one piece: pages beyond 64, queries of a page beyond 128, so many blocks that they are merged.
const std::vector<SelectionCase> kCases = {
    {2, 2, 8, 8, 9, 24},     {3, 1, 16, 4, 33, 10},   {7, 1, 64, 16, 20, 40},    {14, 2, 128, 32, 17, 33, 3.0},
    {4, 4, 8, 1, 3, 5},      {6, 2, 32, 128, 1, 128}, {8, 4, 128, 128, 70, 300}, {2, 1, 64, 200, 66, 450},
    {4, 2, 64, 2, 700, 300}, {3, 1, 128, 16, 64, 16}, {28, 4, 128, 1, 131, 265}};

// A NaN frame that no page of the view owns catches a read beside it.
AttentionCase window_of(const SelectionCase& c) {
    return {.tokens = c.tokens,
            .query_heads = c.query_heads,
            .kv_heads = c.kv_heads,
            .head_dim = c.head_dim,
            .keys = c.pages * c.page_tokens,
            .page_tokens = c.page_tokens,
            .cuts = {},
            .mask = {}};
}

oracle::PageSelectionInput input_of(const SelectionCase& c, std::vector<double> q, std::vector<double> k) {
    return {std::move(q), std::move(k), c.page_tokens, c.query_heads, c.kv_heads, c.head_dim};
}

template <class Set>
struct SelectionRun {
    using T = typename Set::Storage;
    using A = Accumulator<T>;

    explicit SelectionRun(const SelectionCase& c)
        : q_values(random_values<T>(c.tokens * c.query_heads * c.head_dim, 1, c.spread)),
          k_values(random_values<T>(c.pages * c.page_tokens * c.kv_heads * c.head_dim, 2, c.spread)) {
        const AttentionCase window = window_of(c);
        PagedWindow<Set, T> kv(window, 0, window.keys, 3);
        kv.fill(k_values, std::vector<double>(k_values.size(), std::numeric_limits<double>::quiet_NaN()));
        BufferOf<Set, T> mean_buffer(std::vector<T>(c.pages * c.kv_heads * c.head_dim));
        Set::page_means({kv.template view<const T>(), mean_buffer.data()});
        means = widen(mean_buffer.values());
        const std::int64_t rows = (c.tokens + c.page_tokens - 1) / c.page_tokens;
        BufferOf<Set, T> q(narrow<T>(q_values));
        BufferOf<Set, A> score_buffer(std::vector<A>(rows * c.pages, std::numeric_limits<A>::quiet_NaN()));
        Set::page_scores({.q = q.data(),
                          .means = mean_buffer.data(),
                          .scores = score_buffer.data(),
                          .tokens = c.tokens,
                          .page_tokens = c.page_tokens,
                          .pages = c.pages,
                          .query_heads = c.query_heads,
                          .kv_heads = c.kv_heads,
                          .head_dim = c.head_dim,
                          .scale = page_score_scale(c.head_dim)});
        scores = widen(score_buffer.values());
    }

    std::vector<double> q_values, k_values, means, scores;
};

// Scores are softmaxes: an error of e in an exponent is one of 2 e of a weight, relative. Exponents are sums of
// head_dim products, off by (8 + 16) roundoffs of their sum of magnitudes, or by 96: on tensor cores sums are cut off,
// up to 32 roundoffs in 16 additions, and a sum of queries in two bfloat16 numbers is off by 2^-18, 64 roundoffs of
// fp32. Twice 96 * kMostMagnitude roundoffs is 7,680, rounded up to 2^13; sums over tokens and heads add less than what
// is left.
template <class A>
constexpr double kScoreTolerance = 0x1p13 * kRoundoff<A>;
constexpr double kMostMagnitude = 40;

// The largest sum of magnitudes of an exponent's terms.
double most_magnitude(const SelectionCase& c, const std::vector<double>& q, const std::vector<double>& means) {
    const std::int64_t group = c.query_heads / c.kv_heads, dim = c.head_dim;
    double most = 0;
    for (std::int64_t row = 0; row < c.tokens * c.kv_heads; ++row) {
        std::vector<double> sum(dim);
        for (std::int64_t i = 0; i < group * dim; ++i) {
            sum[i % dim] += q[row * group * dim + i];
        }
        for (std::int64_t page = 0; page < c.pages; ++page) {
            const double* mean = means.data() + (page * c.kv_heads + row % c.kv_heads) * dim;
            most = std::max(most, std::transform_reduce(sum.begin(), sum.end(), mean, 0.0, std::plus<>(),
                                                        [](double a, double b) { return std::abs(a * b); }));
        }
    }
    return page_score_scale(dim) * most;
}

TEST_CASE_TEMPLATE("page means and scores", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    for (const SelectionCase& c : kCases) {
        CAPTURE(c.query_heads);
        CAPTURE(c.pages);
        CAPTURE(c.tokens);
        const SelectionRun<Set> run(c);
        CHECK(most_magnitude(c, run.q_values, run.means) <= kMostMagnitude);
        const auto input = input_of(c, run.q_values, run.k_values);
        CHECK(relative_error(run.means, oracle::page_selection(input).means) < kTolerance<T, T>);
        CHECK(relative_error(run.scores, oracle::page_scores(input, run.means)) < kScoreTolerance<Accumulator<T>>);
        double votes = 0;
        for (const double score : run.scores) {
            votes += score;
        }
        CHECK(votes == doctest::Approx(static_cast<double>(c.tokens * c.kv_heads)).epsilon(1e-4));
    }
}

template <class Set>
std::vector<std::int32_t> selected(const std::vector<double>& scores, std::int64_t rows, std::int64_t count) {
    using A = Accumulator<typename Set::Storage>;
    BufferOf<Set, A> score_buffer(narrow<A>(scores));
    BufferOf<Set, std::int32_t> lists(std::vector<std::int32_t>(rows * count, -1));
    Set::select_pages(
        {score_buffer.data(), lists.data(), rows, static_cast<std::int64_t>(scores.size()) / rows, count});
    return lists.values();
}

// As a full stable sort selects.
std::vector<std::int32_t> best_pages(const double* scores, std::int64_t pages, std::int64_t count) {
    std::vector<std::int32_t> order(pages);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
    order.resize(count);
    std::sort(order.begin(), order.end());
    return order;
}

TEST_CASE_TEMPLATE("the best pages, ascending, of equals the lower one", Set, OOMB_KERNEL_SETS) {
    using Lists = std::vector<std::int32_t>;
    const std::vector<double> scores = {0.5, 2, 2, 0.25, 2, 0, 1, 1, 1, 1, 1, 1};
    CHECK(selected<Set>(scores, 2, 1) == Lists{1, 0});
    CHECK(selected<Set>(scores, 2, 2) == Lists{1, 2, 0, 1});
    CHECK(selected<Set>(scores, 2, 4) == Lists{0, 1, 2, 4, 0, 1, 2, 3});
    CHECK(selected<Set>(scores, 2, 6) == Lists{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
    const double nan = std::numeric_limits<double>::quiet_NaN(), none = -std::numeric_limits<double>::infinity();
    CHECK(selected<Set>({nan, none, 0, nan}, 1, 3) == Lists{0, 1, 2});
    CHECK(selected<Set>({nan, none, 0, nan}, 1, 2) == Lists{1, 2});
    CHECK_THROWS_AS(selected<Set>(scores, 2, 7), InternalError);
}

TEST_CASE_TEMPLATE("more scores than a block has threads, of both signs, equal ones among them", Set,
                   OOMB_KERNEL_SETS) {
    constexpr std::int64_t kRows = 3, kPages = 5'000;
    std::mt19937 random(6);
    std::normal_distribution<double> normal;
    std::vector<double> scores(kRows * kPages);
    std::generate(scores.begin(), scores.end(),
                  [&] { return random() % 3 == 0 ? std::round(normal(random)) : normal(random); });
    scores = widen(narrow<Accumulator<typename Set::Storage>>(scores));
    for (const std::int64_t count : {1, 64, 1'024, 2'500, 4'999, 5'000}) {
        CAPTURE(count);
        std::vector<std::int32_t> expected;
        for (std::int64_t row = 0; row < kRows; ++row) {
            const std::vector<std::int32_t> list = best_pages(scores.data() + row * kPages, kPages, count);
            expected.insert(expected.end(), list.begin(), list.end());
        }
        CHECK(selected<Set>(scores, kRows, count) == expected);
    }
}

TEST_CASE_TEMPLATE("lists the other way about", Set, OOMB_KERNEL_SETS) {
    std::mt19937 random(7);
    for (const std::int64_t pages : {1, 2, 70, 1'024, 2'500}) {
        for (const std::int64_t rows : {1, 3, 40}) {
            CAPTURE(pages);
            CAPTURE(rows);
            const std::int64_t count = 1 + random() % std::min<std::int64_t>(pages, 60);
            std::vector<std::int32_t> lists, offsets{0}, readers;
            std::vector<std::vector<std::int32_t>> of_page(pages);
            for (std::int64_t row = 0; row < rows; ++row) {
                std::vector<double> scores(pages);
                std::generate(scores.begin(), scores.end(), random);
                for (const std::int32_t page : best_pages(scores.data(), pages, count)) {
                    lists.push_back(page);
                    of_page[page].push_back(static_cast<std::int32_t>(row));
                }
            }
            for (const auto& rows_of_page : of_page) {
                readers.insert(readers.end(), rows_of_page.begin(), rows_of_page.end());
                offsets.push_back(static_cast<std::int32_t>(readers.size()));
            }
            BufferOf<Set, std::int32_t> in(lists), found_offsets(std::vector<std::int32_t>(pages + 1, -1)),
                found_readers(std::vector<std::int32_t>(rows * count, -1));
            Set::invert_lists({in.data(), found_offsets.data(), found_readers.data(), rows, count, pages});
            CHECK(found_offsets.values() == offsets);
            CHECK(found_readers.values() == readers);
        }
    }
}

TEST_CASE_TEMPLATE("random scores, many of them equal: as a full stable sort selects", Set, OOMB_KERNEL_SETS) {
    std::mt19937 random(5);
    for (int i = 0; i < 200; ++i) {
        const std::int64_t pages = 1 + random() % 70, count = 1 + random() % pages;
        std::vector<double> scores(pages);
        std::generate(scores.begin(), scores.end(), [&] { return double(random() % 9); });
        CHECK(selected<Set>(scores, 1, count) == best_pages(scores.data(), pages, count));
    }
}

}  // namespace
}  // namespace oomb::kernels::test
