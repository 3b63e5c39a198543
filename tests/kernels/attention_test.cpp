// Attention over windows of pages, forward and backward, against full-sequence autograd.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/kernels/attention_case.hpp"
#include "tests/kernels/implementations.hpp"

namespace oomb::kernels::test {
namespace {

template <class Set>
void check(const AttentionCase& c) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    CAPTURE(c.tokens);
    CAPTURE(c.keys);
    CAPTURE(c.head_dim);
    CAPTURE(c.cuts.size());
    const auto in = attention_input<T>(c);
    const auto expected = oracle::attention(in);
    AttentionOutput out;
    run_forward<Set>(c, in, out);
    CHECK(relative_error(out.o, expected.o) < kTolerance<T, A>);
    CHECK(relative_error(out.lse, expected.lse) < kTolerance<T, A>);
    run_backward<Set>(c, in, expected, /*first_touch=*/true, 0.0, out);
    CHECK(relative_error(out.dq, expected.dq) < kTolerance<T, A>);
    CHECK(relative_error(out.dk, expected.dk) < kTolerance<T, A>);
    CHECK(relative_error(out.dv, expected.dv) < kTolerance<T, A>);
}

TEST_CASE_TEMPLATE("windows in any split equal one softmax", Set, OOMB_KERNEL_SETS) {
    const std::vector<std::vector<std::int64_t>> splits{{}, {1}, {7}, {4, 8, 12, 16, 20}, {3, 4, 21}, {22}};
    for (const auto& cuts : splits) {  // the last 6 of 23 keys are the queries' own
        check<Set>({6, 6, 2, 8, 23, 4, cuts, 0, {.first_query = 17}});
    }
}

TEST_CASE_TEMPLATE("groups of 1, 3 and 7 query heads, head sizes 64 and 128, a ragged last page", Set,
                   OOMB_KERNEL_SETS) {
    check<Set>({9, 2, 2, 64, 41, 16, {16}, 0, {.first_query = 32}});
    check<Set>({9, 9, 3, 64, 41, 16, {32}, 0, {.first_query = 32}});
    check<Set>({9, 14, 2, 128, 41, 16, {16, 32}, 0, {.first_query = 32}});
    check<Set>({5, 3, 1, 6, 300, 128, {256}, 0, {.first_query = 295}});
}

TEST_CASE_TEMPLATE("one query, one key", Set, OOMB_KERNEL_SETS) {
    check<Set>({1, 1, 1, 8, 1, 16, {}, 0, {.first_query = 0}});
    check<Set>({1, 3, 1, 64, 1, 1, {}, 5, {.first_query = 9}});
}

TEST_CASE_TEMPLATE("queries before, inside and after the window", Set, OOMB_KERNEL_SETS) {
    check<Set>({8, 2, 1, 8, 10, 4, {5}, 20, {.first_query = 17}});   // the first three see nothing
    check<Set>({8, 2, 1, 8, 10, 4, {5}, 20, {.first_query = 100}});  // all see all
    check<Set>({4, 2, 1, 8, 10, 4, {5}, 20, {.first_query = 2}});    // none sees any
}

TEST_CASE_TEMPLATE("sliding window and document starts", Set, OOMB_KERNEL_SETS) {
    check<Set>({6, 2, 1, 8, 22, 4, {4, 8}, 0, {.first_query = 16, .sliding_window = 1}});
    check<Set>({6, 2, 1, 8, 22, 4, {4, 8}, 0, {.first_query = 16, .sliding_window = 7}});
    check<Set>({6, 2, 1, 8, 22, 4, {8}, 0, {.first_query = 16, .document_start = 13}});
    check<Set>({6, 2, 1, 8, 22, 4, {8}, 0, {.first_query = 16, .sliding_window = 5, .document_start = 14}});
    check<Set>({6, 2, 1, 8, 22, 4, {8}, 0, {.first_query = 16}, 1.0, {3, 3, 18, 18, 18, 21}});
}

TEST_CASE_TEMPLATE("positions beyond 32 bits", Set, OOMB_KERNEL_SETS) {
    constexpr std::int64_t kFar = (std::int64_t{1} << 33) + 5;
    check<Set>({6, 2, 1, 8, 22, 4, {8}, kFar, {.first_query = kFar + 16, .sliding_window = 9}});
    check<Set>({6, 2, 1, 8, 22, 4, {8}, kFar, {.first_query = kFar + 16, .document_start = kFar + 3}});
}

// Scores of about +-1e4: far beyond where exp overflows. A float score of 1e4 is itself off by 1e4 * 2^-24 = 6e-4,
// which is the relative error of its weight; differences of float64 scores are good to 1e-12.
TEST_CASE_TEMPLATE("huge scores stay finite", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const AttentionCase c{6, 2, 1, 64, 22, 4, {8}, 0, {.first_query = 16}, 60.0};
    const auto in = attention_input<T>(c);
    const auto expected = oracle::attention(in);
    AttentionOutput out;
    run_forward<Set>(c, in, out);
    const double tolerance = std::is_same_v<T, double> ? 1e-11 : 5e-3;
    CHECK(*std::max_element(expected.lse.begin(), expected.lse.end()) > 5e3);
    CHECK(relative_error(out.o, expected.o) < tolerance);
    CHECK(relative_error(out.lse, expected.lse) < kTolerance<T, Accumulator<T>>);
}

TEST_CASE_TEMPLATE("a touched page is added to, a first touch writes", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    const AttentionCase c{6, 2, 1, 8, 22, 4, {8}, 0, {.first_query = 16, .sliding_window = 5}};
    const auto in = attention_input<T>(c);
    auto expected = oracle::attention(in);
    for (auto* values : {&expected.dq, &expected.dk, &expected.dv}) {
        for (double& value : *values) {
            value += 3.0;
        }
    }
    AttentionOutput out;
    run_backward<Set>(c, in, expected, /*first_touch=*/false, 3.0, out);
    CHECK(relative_error(out.dq, expected.dq) < kTolerance<T, A>);
    CHECK(relative_error(out.dk, expected.dk) < kTolerance<T, A>);
    CHECK(relative_error(out.dv, expected.dv) < kTolerance<T, A>);
}

// The order of every sum is that of the keys and queries, whatever the windows.
TEST_CASE_TEMPLATE("backward has the same bits for every split into windows", Set, OOMB_KERNEL_SETS) {
    AttentionCase c{6, 6, 2, 8, 23, 4, {}, 0, {.first_query = 17}};
    const auto in = attention_input<typename Set::Storage>(c);
    const auto expected = oracle::attention(in);
    AttentionOutput whole;
    run_backward<Set>(c, in, expected, true, 0.0, whole);
    for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{3, 4, 21}, {12}}) {
        c.cuts = cuts;
        AttentionOutput cut;
        run_backward<Set>(c, in, expected, true, 0.0, cut);
        CHECK(cut.dq == whole.dq);
        CHECK(cut.dk == whole.dk);
        CHECK(cut.dv == whole.dv);
    }
}

TEST_CASE_TEMPLATE("delta", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const AttentionCase c{9, 14, 2, 128, 41, 16, {}, 0, {.first_query = 32}};
    const auto in = attention_input<T>(c);
    std::vector<double> expected(c.tokens * c.query_heads);
    for (std::size_t i = 0; i < in.q.size(); ++i) {
        expected[i / c.head_dim] += in.d_o[i] * in.q[i];  // q stands for the output
    }
    BufferOf<Set, T> d_o(narrow<T>(in.d_o)), o(narrow<T>(in.q));
    BufferOf<Set, Accumulator<T>> delta(std::vector<Accumulator<T>>(expected.size(), 7));
    Set::attention_delta({d_o.data(), o.data(), delta.data(), c.tokens, c.query_heads, c.head_dim});
    CHECK(relative_error(delta.values(), expected) < kTolerance<T, Accumulator<T>>);
}

TEST_CASE("offsets of rows pass 32 bits") {
    const std::int32_t frames[]{0, 1'000'000};  // pages of 128 * 8 * 128 = 2^17 elements: frame 16384 starts at 2^31
    const paging::PageView<const float> view{nullptr, nullptr, frames, 128, 8, 128, 0, 256};
    CHECK(view.row_offset(128, 0) == 131'072'000'000);
    CHECK(view.row_offset(255, 7) == 131'072'000'000 + 131'072 - 128);
}

TEST_CASE("operands that contradict each other are refused") {
    AttentionForward<float> forward{.query_heads = 3};
    forward.kv.kv_heads = 2;
    CHECK_THROWS_WITH_AS(cpu::attention_forward(forward), doctest::Contains("3 query heads"), InternalError);
    AttentionBackward<float> backward{.query_heads = 2};
    backward.kv.kv_heads = 2;
    backward.kv.page_tokens = 16;
    backward.d_kv.kv_heads = 2;
    CHECK_THROWS_AS(cpu::attention_backward(backward), InternalError);
}

}  // namespace
}  // namespace oomb::kernels::test
