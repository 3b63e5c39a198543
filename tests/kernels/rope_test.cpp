// RoPE against autograd, at positions where 32 bits or a float product fail.
#include <doctest/doctest.h>

#include <numeric>

#include "runtime/core/error.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

std::vector<float> frequencies(std::int64_t half, double theta) {
    std::vector<float> values(half);
    for (std::int64_t i = 0; i < half; ++i) {
        values[i] = static_cast<float>(std::pow(theta, -double(i) / double(half)));
    }
    return values;
}

template <class Set>
void check(const std::vector<std::int64_t>& positions, bool explicit_positions, std::int64_t heads,
           std::int64_t head_dim, double attention_factor) {
    using T = typename Set::Storage;
    CAPTURE(positions[0]);
    const auto rows = static_cast<std::int64_t>(positions.size());
    const auto x_values = random_values<T>(rows * heads * head_dim, 1);
    const auto dy_values = random_values<T>(rows * heads * head_dim, 2);
    const auto frequency = frequencies(head_dim / 2, 1e4);
    const auto expected = oracle::rope(x_values, dy_values, positions, frequency, attention_factor);
    typename Set::template Buffer<float> frequency_buffer(frequency);
    typename Set::template Buffer<std::int64_t> position_buffer(positions);
    typename Set::template Buffer<T> x(narrow<T>(x_values)), dx(narrow<T>(dy_values));
    RopeRotation<T> args{.x = x.data(),
                         .inverse_frequency = frequency_buffer.data(),
                         .attention_factor = attention_factor,
                         .rows = rows,
                         .heads = heads,
                         .head_dim = head_dim,
                         .first_position = explicit_positions ? -1 : positions[0],
                         .positions = explicit_positions ? position_buffer.data() : nullptr};
    Set::rope_forward(args);
    CHECK(relative_error(x.values(), expected.y) < kTolerance<T, T>);
    args.x = dx.data();
    Set::rope_backward(args);
    CHECK(relative_error(dx.values(), expected.dx) < kTolerance<T, T>);
}

std::vector<std::int64_t> consecutive(std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> positions(count);
    std::iota(positions.begin(), positions.end(), first);
    return positions;
}

TEST_CASE_TEMPLATE("RoPE at consecutive positions", Set, OOMB_KERNEL_SETS) {
    check<Set>(consecutive(0, 70), false, 3, 64, 1.0);
    check<Set>(consecutive(5, 3), false, 1, 2, 1.0);
    check<Set>(consecutive(1, 2), false, 7, 128, 1.2079);  // a YaRN factor
}

// A float product at 2^22 is off by 0.25 rad; a 32-bit position at 2^31 + 7 is negative.
TEST_CASE_TEMPLATE("RoPE at far positions", Set, OOMB_KERNEL_SETS) {
    check<Set>(consecutive((1 << 22) - 1, 4), false, 2, 64, 1.0);
    check<Set>(consecutive((std::int64_t{1} << 31) - 2, 9), false, 2, 64, 1.0);
}

TEST_CASE_TEMPLATE("RoPE at explicit positions", Set, OOMB_KERNEL_SETS) {
    check<Set>({0, 1, 2, 0, 1, std::int64_t{1} << 31, 5}, true, 2, 64, 1.0);
}

TEST_CASE_TEMPLATE("backward undoes forward", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const auto values = random_values<T>(6 * 2 * 16, 1);
    typename Set::template Buffer<float> frequency(frequencies(8, 1e4));
    typename Set::template Buffer<T> x(narrow<T>(values));
    const RopeRotation<T> args{x.data(), frequency.data(), 1.0, 6, 2, 16, 1000, nullptr};
    Set::rope_forward(args);
    CHECK(relative_error(x.values(), values) > 0.1);
    Set::rope_backward(args);
    CHECK(relative_error(x.values(), values) < 2 * kTolerance<T, T>);
}

TEST_CASE("an odd head size is refused") {
    CHECK_THROWS_WITH_AS(cpu::rope_forward(RopeRotation<float>{.head_dim = 7}), doctest::Contains("head_dim 7"),
                         InternalError);
}

}  // namespace
}  // namespace oomb::kernels::test
