// Cross entropy over row tiles against autograd over all rows.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Outcome {
    double loss = 0;
    std::int64_t valid = 0;
    std::vector<double> row_losses, gradient;
};

template <class Set>
Outcome run(const std::vector<double>& logit_values, const std::vector<std::int32_t>& target_values,
            std::int64_t tile_rows, double scale) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    const auto rows = static_cast<std::int64_t>(target_values.size());
    const std::int64_t vocab = static_cast<std::int64_t>(logit_values.size()) / rows;
    typename Set::template Buffer<T> logits(narrow<T>(logit_values));
    typename Set::template Buffer<std::int32_t> targets(target_values);
    typename Set::template Buffer<A> row_losses(std::vector<A>(rows, A(7)));
    Outcome outcome;
    for (std::int64_t row = 0; row < rows; row += tile_rows) {
        const auto sum = Set::cross_entropy({logits.data() + row * vocab, targets.data() + row, row_losses.data() + row,
                                             std::min(tile_rows, rows - row), vocab, scale});
        outcome.loss += sum.loss;
        outcome.valid += sum.valid_targets;
    }
    outcome.row_losses = widen(row_losses.values());
    outcome.gradient = widen(logits.values());
    return outcome;
}

double sum(const std::vector<double>& values) {
    double total = 0;
    for (const double value : values) {
        total += value;
    }
    return total;
}

TEST_CASE_TEMPLATE("cross entropy in tiles, with ignored targets", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const std::vector<std::int32_t> targets{0, 2999, kIgnoredTarget, 17, kIgnoredTarget};
    const auto logits = random_values<T>(5 * 3000, 1, 3.0);  // a vocabulary of more than one block
    const auto expected = oracle::cross_entropy(logits, targets, 0.125);
    for (const std::int64_t tile : {1, 2, 5}) {
        const auto outcome = run<Set>(logits, targets, tile, 0.125);
        CHECK(outcome.valid == 3);
        CHECK(relative_error({outcome.loss}, {sum(expected.row_losses)}) < kTolerance<T, Accumulator<T>>);
        CHECK(relative_error(outcome.row_losses, expected.row_losses) < kTolerance<T, Accumulator<T>>);
        CHECK(relative_error(outcome.gradient, expected.d_logits) < kTolerance<T, T>);
    }
}

TEST_CASE_TEMPLATE("losses alone have the same bits, and the logits stay", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    const std::vector<std::int32_t> target_values{0, 2999, kIgnoredTarget, 17};
    const auto values = random_values<T>(4 * 3000, 1, 3.0);
    const Outcome expected = run<Set>(values, target_values, 4, 0.125);
    typename Set::template Buffer<T> logits(narrow<T>(values));
    typename Set::template Buffer<std::int32_t> targets(target_values);
    typename Set::template Buffer<A> row_losses(std::vector<A>(4, A(7)));
    const CrossEntropySum sums = Set::cross_entropy({.logits = logits.data(),
                                                     .targets = targets.data(),
                                                     .row_losses = row_losses.data(),
                                                     .rows = 4,
                                                     .vocab = 3000,
                                                     .losses_only = true});
    CHECK(sums.loss == expected.loss);
    CHECK(sums.valid_targets == 3);
    CHECK(widen(row_losses.values()) == expected.row_losses);
    CHECK(widen(logits.values()) == values);
}

TEST_CASE_TEMPLATE("every row ignored", Set, OOMB_KERNEL_SETS) {
    const auto outcome = run<Set>({kNan, 1, 2, kInf}, {kIgnoredTarget, kIgnoredTarget}, 2, 1.0);
    CHECK(outcome.loss == 0);
    CHECK(outcome.valid == 0);
    CHECK(outcome.row_losses == std::vector<double>{0, 0});
    CHECK(outcome.gradient == std::vector<double>(4, 0.0));
}

TEST_CASE_TEMPLATE("a vocabulary of one has no loss", Set, OOMB_KERNEL_SETS) {
    const auto outcome = run<Set>({-3, 5}, {0, 0}, 2, 1.0);
    CHECK(outcome.loss == 0);
    CHECK(outcome.gradient == std::vector<double>{0, 0});
}

// Rounding lse to float would put an error of 5e-4 on every probability at 1e4: the tolerance is the usual one.
TEST_CASE_TEMPLATE("huge logits are stable", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    auto logits = random_values<T>(3 * 50, 1, 3.0);
    for (std::int64_t i = 0; i < 50; ++i) {
        logits[i] = 9984 + 64 * double(i % 3);  // exact in bfloat16
        logits[50 + i] = -logits[i];
    }
    const std::vector<std::int32_t> targets{1, 2, 3};
    const auto expected = oracle::cross_entropy(logits, targets, 1.0);
    const auto outcome = run<Set>(logits, targets, 3, 1.0);
    CHECK(relative_error(outcome.row_losses, expected.row_losses) < kTolerance<T, Accumulator<T>>);
    CHECK(relative_error(outcome.gradient, expected.d_logits) < kTolerance<T, T>);
}

TEST_CASE_TEMPLATE("logits that are not finite make the loss NaN, wherever they stand", Set, OOMB_KERNEL_SETS) {
    for (const double bad : {kNan, kInf, -kInf}) {
        for (const std::size_t place : {0, 5, 16, 39}) {
            auto logits = random_values<typename Set::Storage>(40, 1);
            logits[place] = bad;
            const auto outcome = run<Set>(logits, {5}, 1, 1.0);
            CAPTURE(bad);
            CAPTURE(place);
            CHECK_FALSE(std::isfinite(outcome.loss));
        }
    }
}

TEST_CASE("targets outside the vocabulary are refused before anything is written") {
    for (const std::int32_t bad : {-1, 2, -101}) {
        float logits[4] = {1, 2, 3, 4};
        const std::int32_t targets[2] = {0, bad};
        CHECK_THROWS_WITH_AS(cpu::cross_entropy(CrossEntropyTile<float>{logits, targets, nullptr, 2, 2, 1.0}),
                             doctest::Contains("at row 1"), InternalError);
        CHECK(logits[0] == 1);
    }
}

}  // namespace
}  // namespace oomb::kernels::test
