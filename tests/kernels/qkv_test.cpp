// Bias, norm per head, RoPE and pages in one pass, against the references of the steps.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/kernels/qkv_case.hpp"

namespace oomb::kernels::test {
namespace {

// Groups of 1, 3 and 7 query heads per K/V head; last pages ragged, full, and of one row; a head of 96 leaves lanes
// idle and one of 130 or 6 is moved element by element; 72 and 80 heads are more than one block's.
const QkvCase kCases[] = {
    {37, 2, 2, 64, 8, false, false, 5},    {21, 6, 2, 128, 16, true, false, 1 << 20},
    {70, 7, 1, 128, 10, false, true, 100}, {64, 3, 1, 64, 32, true, true, 0},
    {9, 3, 1, 96, 4, true, true, 7},       {19, 7, 1, 130, 8, true, true, 3},
    {5, 3, 3, 6, 4, true, true, 1},        {1, 7, 1, 64, 128, true, false, 12},
    {6, 56, 8, 128, 4, true, true, 2},     {0, 7, 1, 64, 128, true, true, 12},
    {3, 1, 1, 2, 2, false, true, 1},       {11, 64, 8, 64, 4, true, false, 2},
};

bool all_nan(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

// A norm's weight sums over rows and heads, here up to 490 terms. A bias stands before the norm, whose projection
// takes most of what is along x away, so that the tolerance is the plain one.
TEST_CASE_TEMPLATE("QKV forward", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    for (const QkvCase& c : kCases) {
        CAPTURE(c.rows);
        CAPTURE(c.head_dim);
        const QkvProblem<T> problem(c);
        QkvRun<Set> run(problem);
        run.forward(true, true);
        CHECK(relative_error(run.query.values(), problem.parts[0].out) < kTolerance<T, T>);
        const auto [keys, values] = run.keys_and_values();
        CHECK(relative_error(keys, problem.parts[1].out) < kTolerance<T, T>);
        CHECK(relative_error(values, problem.parts[2].out) < kTolerance<T, T>);
    }
}

TEST_CASE_TEMPLATE("QKV forward of queries or keys alone has the bits of both", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    for (const QkvCase& c : kCases) {
        const QkvProblem<T> problem(c);
        QkvRun<Set> both(problem), queries(problem), keys(problem);
        both.forward(true, true);
        queries.forward(true, false);
        keys.forward(false, true);
        CHECK(widen(queries.query.values()) == widen(both.query.values()));
        CHECK(keys.keys_and_values() == both.keys_and_values());
        CHECK(all_nan(widen(keys.query.values())));
        CHECK(all_nan(queries.keys_and_values().first));
    }
}

TEST_CASE_TEMPLATE("QKV backward", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    constexpr double kSums = kTolerance<T, Accumulator<T>>;
    for (const QkvCase& c : kCases) {
        CAPTURE(c.rows);
        CAPTURE(c.head_dim);
        const QkvProblem<T> problem(c);
        QkvRun<Set> run(problem);
        run.backward();
        CHECK(relative_error(run.qkv.values(), problem.d_qkv()) < kTolerance<T, T>);
        CHECK(relative_error(run.d_q_bias.values(), problem.parts[0].d_bias) < kSums);
        CHECK(relative_error(run.d_k_bias.values(), problem.parts[1].d_bias) < kSums);
        CHECK(relative_error(run.d_v_bias.values(), problem.parts[2].d_bias) < kSums);
        CHECK(relative_error(run.d_q_norm.values(), problem.parts[0].d_norm) < kSums);
        CHECK(relative_error(run.d_k_norm.values(), problem.parts[1].d_norm) < kSums);
    }
}

TEST_CASE_TEMPLATE("QKV backward adds to gradients of parameters, or leaves them out", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const QkvProblem<T> problem({21, 3, 1, 64, 8, true, true, 5});
    QkvRun<Set> run(problem), without(problem);
    run.backward();
    without.backward(false);
    CHECK(widen(without.qkv.values()) == widen(run.qkv.values()));
    CHECK(widen(without.d_q_bias.values()) == std::vector<double>(3 * 64, 0.0));
    run.qkv = BufferOf<Set, T>(narrow<T>(problem.qkv));
    run.backward();
    auto twice = problem.parts[0].d_norm;
    for (double& value : twice) {
        value *= 2;
    }
    CHECK(relative_error(run.d_q_norm.values(), twice) < kTolerance<T, Accumulator<T>>);
}

// A product that is NaN must not reach a gradient that does not depend on it.
TEST_CASE_TEMPLATE("QKV backward without norms does not read the product", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const QkvProblem<T> problem({9, 3, 1, 64, 8, true, false, 5});
    QkvRun<Set> run(problem);
    run.qkv = BufferOf<Set, T>(QkvRun<Set>::template poison<T>(9 * 5 * 64));
    run.backward();
    CHECK(relative_error(run.qkv.values(), problem.d_qkv()) < kTolerance<T, T>);
}

TEST_CASE_TEMPLATE("QKV operands that contradict each other are refused", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const QkvProblem<T> problem({4, 1, 1, 8, 4, false, false, 5});
    QkvRun<Set> run(problem);
    QkvForward<T> args{.qkv = run.qkv.data(),
                       .inverse_frequency = run.frequency.data(),
                       .kv = run.kv.view(),
                       .rows = 4,
                       .query_heads = 1,
                       .kv_heads = 1,
                       .head_dim = 8,
                       .first_position = 5};
    args.kv.tokens = 3;
    CHECK_THROWS_AS(Set::qkv_forward(args), InternalError);
    args.kv = run.kv.view();
    args.first_position = 6;
    CHECK_THROWS_AS(Set::qkv_forward(args), InternalError);
    args.first_position = 5;
    args.kv_heads = 2;
    CHECK_THROWS_AS(Set::qkv_forward(args), InternalError);
    args.kv_heads = 1;
    args.head_dim = 7;
    CHECK_THROWS_AS(Set::qkv_forward(args), InternalError);
}

}  // namespace
}  // namespace oomb::kernels::test
