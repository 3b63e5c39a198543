// AdamW against torch's, and the reductions before it.
#include <doctest/doctest.h>

#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

constexpr std::int64_t kCount = 5000;  // more than one block

template <class Set>
struct AdamWRun {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    template <class E>
    using Buffer = typename Set::template Buffer<E>;

    explicit AdamWRun(const std::vector<double>& initial)
        : weights(narrow<A>(initial)),
          m(std::vector<A>(initial.size(), A(0))),
          v(m),
          copy(std::vector<T>(initial.size())) {}

    AdamWStep<T> args(std::int64_t step, Buffer<A>& gradient) {
        return {.weights = weights.data(),
                .gradient = gradient.data(),
                .m = m.data(),
                .v = v.data(),
                .weights_copy = copy.data(),
                .count = static_cast<std::int64_t>(weights.values().size()),
                .step = step};
    }

    Buffer<A> weights, m, v;
    Buffer<T> copy;
};

// The gradient's scale of 0.5 is a power of two: the oracle's scaled gradient is exact.
TEST_CASE_TEMPLATE("four AdamW steps with decay, clipping and a copy", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    const oracle::AdamWSettings settings{3e-2, 0.9, 0.95, 1e-8, 0.1};
    const auto initial = random_values<A>(kCount, 1);
    oracle::AdamWState expected{initial, std::vector<double>(kCount), std::vector<double>(kCount)};
    AdamWRun<Set> run(initial);
    for (std::int64_t step = 1; step <= 4; ++step) {
        auto gradient_values = random_values<A>(kCount, unsigned(step) + 10);
        typename Set::template Buffer<A> gradient(narrow<A>(gradient_values));
        auto args = run.args(step, gradient);
        args.learning_rate = settings.learning_rate;
        args.weight_decay = settings.weight_decay;
        args.gradient_scale = 0.5;
        Set::adamw_step(args);
        for (double& value : gradient_values) {
            value *= 0.5;
        }
        oracle::adamw(expected, gradient_values, step, settings);
        CHECK(relative_error(run.weights.values(), expected.weights) < kTolerance<T, A>);
        CHECK(relative_error(run.m.values(), expected.m) < kTolerance<T, A>);
        CHECK(relative_error(run.v.values(), expected.v) < kTolerance<T, A>);
        CHECK(widen(run.copy.values()) == widen(narrow<T>(widen(run.weights.values()))));
    }
}

TEST_CASE_TEMPLATE("without a learning rate the weights keep their bits", Set, OOMB_KERNEL_SETS) {
    using A = Accumulator<typename Set::Storage>;
    AdamWRun<Set> run({-0.0, 0.0, 0.1, -3.0});
    typename Set::template Buffer<A> gradient(narrow<A>({-1, 1, 2, 3}));
    auto args = run.args(1, gradient);
    args.weight_decay = 0.1;
    Set::adamw_step(args);
    CHECK(std::signbit(run.weights.values()[0]));
    CHECK(std::signbit(double(load(run.copy.values()[0]))));
    CHECK(run.weights.values() == narrow<A>({-0.0, 0.0, 0.1, -3.0}));
    CHECK(run.m.values()[3] != A(0));
}

TEST_CASE_TEMPLATE("sum of squares", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const auto values = random_values<T>(10'000, 1);
    double expected = 0;
    for (const double value : values) {
        expected += value * value;
    }
    typename Set::template Buffer<T> buffer(narrow<T>(values));
    CHECK(Set::sum_of_squares(buffer.data(), 10'000) == doctest::Approx(expected).epsilon(1e-12));
    CHECK(Set::sum_of_squares(buffer.data(), 0) == 0.0);
    typename Set::template Buffer<T> large(narrow<T>({0x1p100, 0x1p100}));  // squares overflow a float
    CHECK(Set::sum_of_squares(large.data(), 2) == 0x1p201);
}

TEST_CASE_TEMPLATE("the first value that is not finite is found", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    auto values = random_values<T>(10'000, 1);
    const auto find = [&] {
        typename Set::template Buffer<T> buffer(narrow<T>(values));
        return Set::find_non_finite(buffer.data(), 10'000);
    };
    CHECK(find() == -1);
    values[9'999] = std::numeric_limits<double>::infinity();
    CHECK(find() == 9'999);
    values[4'096] = std::numeric_limits<double>::quiet_NaN();
    CHECK(find() == 4'096);
    values[3] = -std::numeric_limits<double>::infinity();
    CHECK(find() == 3);
}

}  // namespace
}  // namespace oomb::kernels::test
