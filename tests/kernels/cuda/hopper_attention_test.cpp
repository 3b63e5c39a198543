// Attention on the tensor cores: every step of the forward kernel and the backward kernel against float64, within what
// rounding to bfloat16 allows, and beside the plain kernel.
#include <doctest/doctest.h>

#include "tests/kernels/cuda/hopper_sets.hpp"
#include "tests/kernels/hopper_case.hpp"

namespace oomb::kernels::test {
namespace {

TEST_CASE_TEMPLATE("Hopper: groups of 1, 3, 4, 7 and 8 query heads, head sizes 64 and 128", Set, OOMB_HOPPER_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        check<Set>({70, 2, 2, head_dim, 333, 128, {}, 0, {.first_query = 263}});
        check<Set>({70, 6, 2, head_dim, 333, 128, {}, 0, {.first_query = 263}});
        check<Set>({70, 4, 1, head_dim, 333, 128, {}, 0, {.first_query = 263}});
        check<Set>({70, 14, 2, head_dim, 333, 128, {}, 0, {.first_query = 263}});
        check<Set>({70, 8, 1, head_dim, 333, 128, {}, 0, {.first_query = 263}});
    }
}

TEST_CASE_TEMPLATE("Hopper: full and ragged tiles of queries, causal in the own chunk", Set, OOMB_HOPPER_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        for (const std::int64_t tokens : {1, 63, 64, 65, 128, 129, 192, 200, 385}) {
            check<Set>({tokens, 3, 1, head_dim, tokens, 128, {}, 0, {.first_query = 0}});
        }
    }
}

TEST_CASE_TEMPLATE("Hopper: windows in any split equal one softmax", Set, OOMB_HOPPER_SETS) {
    const std::vector<std::vector<std::int64_t>> splits{{1}, {128}, {256, 512}, {100, 101, 357}, {699}};
    for (const auto& cuts : splits) {
        check<Set>({150, 3, 1, 64, 700, 128, cuts, 0, {.first_query = 550}});
        check<Set>({150, 4, 2, 128, 700, 128, cuts, 0, {.first_query = 550}});
    }
}

TEST_CASE_TEMPLATE("Hopper: a chunk and its history, dense", Set, OOMB_HOPPER_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        check_chunk<Set>({300, 6, 2, head_dim, 1'324, 128, {512, 1'024}, 0, {.first_query = 1'024}});
        check_chunk<Set>({385, 7, 1, head_dim, 385, 128, {}, 0, {.first_query = 0}});
        check_chunk<Set>({1, 2, 1, head_dim, 129, 128, {128}, 0, {.first_query = 128}});
        check_chunk<Set>({300, 4, 2, head_dim, 940, 128, {128, 640}, 0, {.first_query = 640, .sliding_window = 400}});
    }
}

TEST_CASE_TEMPLATE("Hopper: one query, one key", Set, OOMB_HOPPER_SETS) {
    check<Set>({1, 1, 1, 128, 1, 128, {}, 0, {.first_query = 0}});
    check<Set>({1, 3, 1, 64, 1, 128, {}, 5, {.first_query = 9}});
    check<Set>({1, 7, 1, 128, 1'025, 128, {}, 0, {.first_query = 1'024}});
}

TEST_CASE_TEMPLATE("Hopper: queries before, inside and after the window", Set, OOMB_HOPPER_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        check<Set>({140, 2, 1, head_dim, 300, 128, {130}, 1'000, {.first_query = 930}});     // the first 70 see nothing
        check<Set>({140, 2, 1, head_dim, 300, 128, {130}, 1'000, {.first_query = 10'000}});  // all see all
        check<Set>({140, 2, 1, head_dim, 300, 128, {130}, 1'000, {.first_query = 2}});       // none sees any
    }
}

TEST_CASE_TEMPLATE("Hopper: sliding window and document starts", Set, OOMB_HOPPER_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        check<Set>({140, 2, 1, head_dim, 640, 128, {256}, 0, {.first_query = 500, .sliding_window = 1}});
        check<Set>({140, 2, 1, head_dim, 640, 128, {}, 0, {.first_query = 500, .sliding_window = 200}});
        check<Set>({140, 2, 1, head_dim, 640, 128, {}, 0, {.first_query = 500, .document_start = 290}});
        check<Set>(
            {140, 2, 1, head_dim, 640, 128, {}, 0, {.first_query = 500, .sliding_window = 128, .document_start = 450}});
        std::vector<std::int64_t> starts(140, 3);
        std::fill(starts.begin() + 60, starts.end(), 560);
        std::fill(starts.begin() + 100, starts.begin() + 104, 700);  // nothing is left to see
        check<Set>({140, 2, 1, head_dim, 640, 128, {}, 0, {.first_query = 500}, 1.0, starts});
    }
}

TEST_CASE_TEMPLATE("Hopper: positions beyond 32 bits", Set, OOMB_HOPPER_SETS) {
    constexpr std::int64_t kFar = (std::int64_t{1} << 33) + 5;
    check<Set>({140, 2, 1, 128, 300, 128, {128}, kFar, {.first_query = kFar + 160, .sliding_window = 190}});
    check<Set>({140, 2, 1, 64, 300, 128, {}, kFar, {.first_query = kFar + 160, .document_start = kFar + 33}});
}

// Scores of about +-1e4, far beyond where exp overflows. The bound grows with them: a score is off by e = 0.1.
TEST_CASE_TEMPLATE("Hopper: huge scores stay finite", Set, OOMB_HOPPER_SETS) {
    const AttentionCase c{140, 2, 1, 64, 300, 128, {130}, 0, {.first_query = 160}, 60.0};
    const auto in = attention_input<BFloat16>(c);
    const auto expected = oracle::attention(in);
    AttentionOutput out;
    run_forward<Set>(c, in, out);
    CHECK(*std::max_element(expected.lse.begin(), expected.lse.end()) > 5e3);
    check_forward(out, expected, rounding_bounds(in, expected));
}

// Sums are rescaled at each of 2,048 pages: a factor off by a roundoff of the reference, 16 to 32 here, would add up to
// 4e-3 of the sum.
TEST_CASE_TEMPLATE("Hopper: nothing drifts over thousands of pages", Set, OOMB_HOPPER_SETS) {
    const AttentionCase c{8, 1, 1, 64, 262'144, 128, {}, 0, {.first_query = 262'136}, 2.5};
    const auto in = attention_input<BFloat16>(c);
    const auto expected = oracle::attention(in);
    AttentionOutput out;
    run_forward<Set>(c, in, out);
    check_forward(out, expected, rounding_bounds(in, expected));
    for (std::size_t i = 0; i < out.lse.size(); ++i) {
        CHECK(std::abs(out.lse[i] - expected.lse[i]) < 3e-4);
    }
}

using Specialised = Hopper<cuda::hopper::ForwardKernel::kSpecialised>;

TEST_CASE("Hopper: a touched page is added to, a first touch writes") {
    for (const std::int64_t head_dim : {64, 128}) {
        const AttentionCase c{140, 3, 1, head_dim, 640, 128, {256}, 0, {.first_query = 500, .sliding_window = 150}};
        const auto in = attention_input<BFloat16>(c);
        auto expected = oracle::attention(in);
        auto bounds = rounding_bounds(in, expected);
        AttentionOutput out;
        run_backward<Specialised>(c, in, expected, /*first_touch=*/true, 0.0, out);
        check_backward(out, expected, bounds);
        constexpr double kBefore = 3;
        for (auto* values : {&expected.dq, &expected.dk, &expected.dv}) {
            std::for_each(values->begin(), values->end(), [](double& value) { value += kBefore; });
        }
        // dq adds up over five pages, dk and dv once: a rounding of numbers of up to 8 each.
        for (auto* bound : {&bounds.dq, &bounds.dk, &bounds.dv}) {
            std::for_each(bound->begin(), bound->end(), [](double& value) { value += 6 * 8 * kRoundoff<float>; });
        }
        AttentionOutput added;
        run_backward<Specialised>(c, in, expected, /*first_touch=*/false, kBefore, added);
        check_backward(added, expected, bounds);
    }
}

TEST_CASE("Hopper: dk and dv have the same bits every time") {
    const AttentionCase c{385, 14, 2, 128, 900, 128, {}, 0, {.first_query = 515}};
    const auto in = attention_input<BFloat16>(c);
    const auto expected = oracle::attention(in);
    AttentionOutput first;
    run_backward<Specialised>(c, in, expected, true, 0.0, first);
    for (int i = 0; i < 10; ++i) {
        AttentionOutput again;
        run_backward<Specialised>(c, in, expected, true, 0.0, again);
        CHECK(again.dk == first.dk);
        CHECK(again.dv == first.dv);
    }
}

// 128 pages of 2 KV heads: more blocks than fit at once. A mask that hides pages from tiles leaves gaps in the order.
TEST_CASE("Hopper: an ordered dq has the same bits every time") {
    for (const std::int64_t head_dim : {64, 128}) {
        const AttentionCase cases[] = {
            {300, 6, 2, head_dim, 16'384, 128, {}, 0, {.first_query = 16'384}},
            {1'500, 6, 2, head_dim, 1'500, 128, {}, 0, {.first_query = 0, .sliding_window = 400}}};
        for (const AttentionCase& c : cases) {
            const auto in = attention_input<BFloat16>(c);
            oracle::AttentionResult state;  // sums are compared with themselves
            state.lse.assign(c.tokens * c.query_heads, 8.0);
            state.delta.assign(c.tokens * c.query_heads, 0.25);
            AttentionOutput first;
            run_backward<HopperOrdered>(c, in, state, true, 0.0, first);
            for (int i = 0; i < 5; ++i) {
                AttentionOutput again;
                run_backward<HopperOrdered>(c, in, state, true, 0.0, again);
                CHECK(again.dq == first.dq);
                CHECK(again.dk == first.dk);
                CHECK(again.dv == first.dv);
            }
        }
    }
}

// Every operand that takes() refuses: the bits are the plain kernel's.
TEST_CASE_TEMPLATE("Hopper: what it does not take goes to the plain kernel", Set, OOMB_HOPPER_SETS) {
    const AttentionCase cases[] = {{9, 4, 2, 64, 41, 16, {16}, 0, {.first_query = 32}},
                                   {9, 4, 2, 32, 300, 128, {}, 0, {.first_query = 291}},
                                   {9, 4, 2, 256, 300, 128, {}, 0, {.first_query = 291}}};
    for (const AttentionCase& c : cases) {
        const auto in = attention_input<BFloat16>(c);
        const auto expected = oracle::attention(in);
        AttentionOutput ours, plain;
        run_forward<Set>(c, in, ours);
        run_backward<Set>(c, in, expected, true, 0.0, ours);
        run_forward<Cuda<BFloat16>>(c, in, plain);
        run_backward<Cuda<BFloat16>>(c, in, expected, true, 0.0, plain);
        CHECK(ours.o == plain.o);
        CHECK(ours.lse == plain.lse);
        CHECK(ours.dq == plain.dq);
        CHECK(ours.dk == plain.dk);
    }
}

}  // namespace
}  // namespace oomb::kernels::test
