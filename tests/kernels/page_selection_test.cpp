// Means, scores and lists of pages against float64.
#include <doctest/doctest.h>

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

// Groups of 1, 3 and 7; a ragged last query page; one page; sharp softmaxes.
const std::vector<SelectionCase> kCases = {{2, 2, 8, 8, 9, 24},    {3, 1, 16, 4, 33, 10},
                                           {7, 1, 64, 16, 20, 40}, {14, 2, 128, 32, 17, 33, 3.0},
                                           {4, 4, 8, 1, 3, 5},     {6, 2, 32, 128, 1, 128}};

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
// head_dim products, off by (8 + 16) roundoffs of their sum of magnitudes: at most scale * group * head_dim * spread^2,
// which these cases keep below 128 (their keys' means are smaller). Twice 24 * 128 roundoffs, rounded up to 2^13; sums
// over tokens and heads add less than the factor left.
template <class A>
constexpr double kScoreTolerance = 0x1p13 * kRoundoff<A>;

TEST_CASE_TEMPLATE("page means and scores", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    for (const SelectionCase& c : kCases) {
        CAPTURE(c.query_heads);
        CAPTURE(c.pages);
        const SelectionRun<Set> run(c);
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

TEST_CASE_TEMPLATE("random scores, many of them equal: as a full stable sort selects", Set, OOMB_KERNEL_SETS) {
    std::mt19937 random(5);
    for (int i = 0; i < 200; ++i) {
        const std::int64_t pages = 1 + random() % 70, count = 1 + random() % pages;
        std::vector<double> scores(pages);
        std::generate(scores.begin(), scores.end(), [&] { return double(random() % 9); });
        std::vector<std::int32_t> order(pages);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
        order.resize(count);
        std::sort(order.begin(), order.end());
        CHECK(selected<Set>(scores, 1, count) == order);
    }
}

}  // namespace
}  // namespace oomb::kernels::test
