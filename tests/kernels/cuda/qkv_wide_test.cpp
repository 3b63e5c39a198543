// What only the CUDA kernel distinguishes: several tables of sines to a block, operands that do not lie on 16 bytes,
// run to run.
#include <doctest/doctest.h>

#include "tests/kernels/qkv_case.hpp"

namespace oomb::kernels::test {
namespace {

// 36 heads are a full block in packs and some slices without; 1,097 rows are 8 to a block, the last with one.
const QkvCase kWide{1097, 28, 4, 128, 128, true, true, 4096};

// The norm's weight sums 30,716 products of normal numbers, whose magnitudes add up to 32 times the largest result, by
// way of 8 rows, 28 heads, 9 partial sums and 16 slices: 61 additions, 1,952 roundoffs at most.
TEST_CASE_TEMPLATE("QKV over many rows", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    constexpr double kSums = 8 * kTolerance<T, Accumulator<T>>;
    const QkvProblem<T> problem(kWide);
    QkvRun<Set> run(problem);
    run.forward(true, true);
    CHECK(relative_error(run.query.values(), problem.parts[0].out) < kTolerance<T, T>);
    CHECK(relative_error(run.keys_and_values().first, problem.parts[1].out) < kTolerance<T, T>);
    CHECK(relative_error(run.keys_and_values().second, problem.parts[2].out) < kTolerance<T, T>);
    run.backward();
    CHECK(relative_error(run.qkv.values(), problem.d_qkv()) < kTolerance<T, T>);
    CHECK(relative_error(run.d_q_bias.values(), problem.parts[0].d_bias) < kSums);
    CHECK(relative_error(run.d_k_bias.values(), problem.parts[1].d_bias) < kSums);
    CHECK(relative_error(run.d_v_bias.values(), problem.parts[2].d_bias) < kSums);
    CHECK(relative_error(run.d_q_norm.values(), problem.parts[0].d_norm) < kSums);
    CHECK(relative_error(run.d_k_norm.values(), problem.parts[1].d_norm) < kSums);
}

TEST_CASE_TEMPLATE("QKV sums have the same bits every time", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const QkvProblem<T> problem(kWide);
    const auto sums = [&] {
        QkvRun<Set> run(problem);
        run.backward();
        return std::pair(widen(run.d_q_bias.values()), widen(run.d_k_norm.values()));
    };
    const auto first = sums();
    for (int i = 0; i < 5; ++i) {
        CHECK(sums() == first);
    }
}

// One element further on in memory, everything moves element by element.
TEST_CASE_TEMPLATE("QKV operands that do not lie on 16 bytes", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const QkvCase c{13, 3, 1, 64, 4, true, true, 9};
    const QkvProblem<T> problem(c);
    QkvRun<Set> run(problem);
    auto shifted = problem.qkv;
    shifted.insert(shifted.begin(), 0.0);
    run.qkv = BufferOf<Set, T>(narrow<T>(shifted));
    Set::qkv_forward({.qkv = run.qkv.data() + 1,
                      .q_bias = run.q_bias.data(),
                      .k_bias = run.k_bias.data(),
                      .v_bias = run.v_bias.data(),
                      .q_norm = run.q_norm.data(),
                      .k_norm = run.k_norm.data(),
                      .inverse_frequency = run.frequency.data(),
                      .attention_factor = c.kAttentionFactor,
                      .query = run.query.data(),
                      .kv = run.kv.view(),
                      .rows = c.rows,
                      .query_heads = c.query_heads,
                      .kv_heads = c.kv_heads,
                      .head_dim = c.head_dim,
                      .first_position = c.first_position,
                      .eps = c.kEps});
    CHECK(relative_error(run.query.values(), problem.parts[0].out) < kTolerance<T, T>);
    CHECK(relative_error(run.keys_and_values().second, problem.parts[2].out) < kTolerance<T, T>);
}

}  // namespace
}  // namespace oomb::kernels::test
