// SwiGLU against autograd, with gate and up apart, in one buffer, and in place.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kWidth = 37;

// Rows of `columns` out of rows of `stride`, from column `first`.
std::vector<double> columns_of(const std::vector<double>& values, std::int64_t stride, std::int64_t first) {
    std::vector<double> result;
    for (std::int64_t row = 0; row < kRows; ++row) {
        const auto begin = values.begin() + row * stride + first;
        result.insert(result.end(), begin, begin + kWidth);
    }
    return result;
}

TEST_CASE_TEMPLATE("SwiGLU over two halves of one buffer, backward in place", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    constexpr std::int64_t kStride = 2 * kWidth;
    const auto both = random_values<T>(kRows * kStride, 1, 4.0);
    const auto d_act_values = random_values<T>(kRows * kWidth, 2);
    const auto expected = oracle::swiglu(columns_of(both, kStride, 0), columns_of(both, kStride, kWidth), d_act_values);
    typename Set::template Buffer<T> buffer(narrow<T>(both)), d_act(narrow<T>(d_act_values));
    typename Set::template Buffer<T> act(std::vector<T>(kRows * kWidth));
    T* gate = buffer.data();
    T* up = buffer.data() + kWidth;
    Set::swiglu_forward({gate, up, act.data(), kRows, kWidth, kStride});
    CHECK(relative_error(act.values(), expected.act) < kTolerance<T, T>);
    Set::swiglu_backward({d_act.data(), gate, up, gate, up, kRows, kWidth, kStride});
    const auto gradients = widen(buffer.values());
    CHECK(relative_error(columns_of(gradients, kStride, 0), expected.d_gate) < kTolerance<T, T>);
    CHECK(relative_error(columns_of(gradients, kStride, kWidth), expected.d_up) < kTolerance<T, T>);
}

TEST_CASE_TEMPLATE("SwiGLU over buffers of their own, forward in place", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const auto gate_values = random_values<T>(kRows * kWidth, 1, 4.0);
    const auto up_values = random_values<T>(kRows * kWidth, 2);
    const auto d_act_values = random_values<T>(kRows * kWidth, 3);
    const auto expected = oracle::swiglu(gate_values, up_values, d_act_values);
    typename Set::template Buffer<T> gate(narrow<T>(gate_values)), up(narrow<T>(up_values));
    typename Set::template Buffer<T> d_act(narrow<T>(d_act_values)), d_gate(gate), d_up(gate);
    Set::swiglu_backward({d_act.data(), gate.data(), up.data(), d_gate.data(), d_up.data(), kRows, kWidth, kWidth});
    CHECK(relative_error(d_gate.values(), expected.d_gate) < kTolerance<T, T>);
    CHECK(relative_error(d_up.values(), expected.d_up) < kTolerance<T, T>);
    Set::swiglu_forward({gate.data(), up.data(), gate.data(), kRows, kWidth, kWidth});
    CHECK(relative_error(gate.values(), expected.act) < kTolerance<T, T>);
}

// exp(-gate) overflows below -710 in float64 and -88 in float: silu must reach its limits 0 and gate, not NaN.
TEST_CASE_TEMPLATE("SwiGLU of huge gates", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const std::vector<double> gate_values{-1e4, -800, -90, 90, 800, 1e4};
    const std::vector<double> ones(gate_values.size(), 1.0);
    typename Set::template Buffer<T> gate(narrow<T>(gate_values)), one(narrow<T>(ones)), act(gate), d_gate(gate),
        d_up(gate);
    Set::swiglu_forward({gate.data(), one.data(), act.data(), 1, 6, 6});
    const auto limits = widen(narrow<T>({0, 0, 0, 90, 800, 1e4}));
    CHECK(relative_error(act.values(), limits) < kTolerance<T, T>);
    Set::swiglu_backward({one.data(), gate.data(), one.data(), d_gate.data(), d_up.data(), 1, 6, 6});
    CHECK(relative_error(d_gate.values(), {0, 0, 0, 1, 1, 1}) < kTolerance<T, T>);
    CHECK(relative_error(d_up.values(), limits) < kTolerance<T, T>);
}

TEST_CASE("a row stride below the width is refused") {
    CHECK_THROWS_WITH_AS(cpu::swiglu_forward(SwigluForward<float>{.width = 4, .row_stride = 3}),
                         doctest::Contains("row stride 3"), InternalError);
}

}  // namespace
}  // namespace oomb::kernels::test
