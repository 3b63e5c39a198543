// RMSNorm against autograd.
#include <doctest/doctest.h>

#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

constexpr double kEps = 1e-5;

template <class Set>
struct RmsNormRun {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    template <class E>
    using Buffer = typename Set::template Buffer<E>;

    RmsNormRun(std::int64_t row_count, std::int64_t row_width, double spread)
        : rows(row_count),
          width(row_width),
          x_values(random_values<T>(rows * width, 1, spread)),
          weight_values(random_values<T>(width, 2)),
          dy_values(random_values<T>(rows * width, 3)),
          expected(oracle::rms_norm(x_values, weight_values, dy_values, kEps)),
          x(narrow<T>(x_values)),
          weight(narrow<T>(weight_values)),
          dy(narrow<T>(dy_values)),
          d_weight(std::vector<A>(width, A(0))) {}

    void backward(T* dx, bool add_to_dx) {
        Set::rms_norm_backward({dy.data(), x.data(), weight.data(), dx, d_weight.data(), rows, width, kEps, add_to_dx});
    }

    std::int64_t rows, width;
    std::vector<double> x_values, weight_values, dy_values;
    oracle::RmsNormResult expected;
    Buffer<T> x, weight, dy;
    Buffer<A> d_weight;
};

TEST_CASE_TEMPLATE("RMSNorm forward and backward", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    struct Shape {
        std::int64_t rows, width;
        double spread;
    };
    // 200 rows are more than one block of the weight gradient; spread 1e-3 makes eps count, and where the width is 1 it
    // keeps the two terms of dx, equal but for eps, from cancelling; width 64: a norm per head.
    for (const Shape& shape : {Shape{200, 64, 1.0}, {3, 576, 1e-3}, {1, 7, 1.0}, {65, 1, 1e-3}, {5, 512, 1e3}}) {
        CAPTURE(shape.rows);
        CAPTURE(shape.width);
        RmsNormRun<Set> run(shape.rows, shape.width, shape.spread);
        typename Set::template Buffer<T> y(std::vector<T>(run.x_values.size())), dx(y);
        Set::rms_norm_forward({run.x.data(), run.weight.data(), y.data(), run.rows, run.width, kEps});
        CHECK(relative_error(y.values(), run.expected.y) < kTolerance<T, T>);
        run.backward(dx.data(), false);
        CHECK(relative_error(dx.values(), run.expected.dx) < kTolerance<T, T>);
        CHECK(relative_error(run.d_weight.values(), run.expected.d_weight) < kTolerance<T, Accumulator<T>>);
        run.backward(dx.data(), false);
        for (double& value : run.expected.d_weight) {
            value *= 2;
        }
        CHECK(relative_error(run.d_weight.values(), run.expected.d_weight) < kTolerance<T, Accumulator<T>>);
    }
}

TEST_CASE_TEMPLATE("RMSNorm in place", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    RmsNormRun<Set> run(70, 33, 1.0);
    run.backward(run.dy.data(), false);
    CHECK(relative_error(run.dy.values(), run.expected.dx) < kTolerance<T, T>);
    CHECK(relative_error(run.d_weight.values(), run.expected.d_weight) < kTolerance<T, Accumulator<T>>);
    Set::rms_norm_forward({run.x.data(), run.weight.data(), run.x.data(), run.rows, run.width, kEps});
    CHECK(relative_error(run.x.values(), run.expected.y) < kTolerance<T, T>);
}

TEST_CASE_TEMPLATE("RMSNorm adds to the residual's gradient", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    RmsNormRun<Set> run(4, 33, 1.0);
    typename Set::template Buffer<T> dx(narrow<T>(std::vector<double>(run.x_values.size(), 4.0)));
    run.backward(dx.data(), true);
    for (double& value : run.expected.dx) {
        value += 4.0;
    }
    CHECK(relative_error(dx.values(), run.expected.dx) < kTolerance<T, T>);
}

}  // namespace
}  // namespace oomb::kernels::test
