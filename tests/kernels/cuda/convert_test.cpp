// The small kernels around the large ones.
#include <doctest/doctest.h>

#include "kernels/cuda/convert.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels/cuda/kernel_sets.hpp"

namespace oomb::kernels::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The nearest number with `digits` binary digits, ties to even, exponents of float; rint rounds so by default.
double rounded(double value, int digits) {
    if (!std::isfinite(value) || value == 0) {
        return value;
    }
    const double step = std::ldexp(1.0, std::max(std::ilogb(value), -126) + 1 - digits);
    const double nearest = std::rint(value / step) * step;
    return std::abs(nearest) >= 0x1p128 ? std::copysign(kInfinity, nearest) : nearest;
}
template <class E>
constexpr int kDigits = std::is_same_v<E, double>  ? 53
                        : std::is_same_v<E, float> ? 24
                                                   : 8;

// Random magnitudes, ties, and what rounding twice gets wrong: a tie of bfloat16 and a little more than it.
template <class From>
std::vector<From> awkward_values(std::size_t count) {
    std::vector<double> values{0.0,
                               -0.0,
                               1.0 + 0x1p-8,
                               1.0 + 3 * 0x1p-8,
                               1.0 + 0x1p-8 + 0x1p-40,
                               1.0 + 3 * 0x1p-8 - 0x1p-40,
                               0x1.fffffep127,
                               -0x1.ff7fffp127,
                               0x1.ff8p127,
                               kInfinity,
                               0x1p-130,
                               0x1.8p-133,
                               -0x1.8001p-134};
    std::mt19937 generator(5);
    std::normal_distribution<double> normal;
    while (values.size() < count) {
        values.push_back(std::ldexp(normal(generator), static_cast<int>(generator() % 250) - 125));
    }
    values.resize(count);
    std::vector<From> result(count);
    for (std::size_t i = 0; i < count; ++i) {
        result[i] = From(static_cast<Accumulator<From>>(values[i]));
    }
    return result;
}

template <class From, class To>
void check_convert(std::size_t count, std::size_t shift) {
    CAPTURE(count);
    CAPTURE(shift);
    DeviceBuffer<From> from(awkward_values<From>(count + shift));
    DeviceBuffer<To> to(narrow<To>(std::vector<double>(count + shift + 1, 5.0)));
    cuda::convert(from.data() + shift, to.data() + shift, static_cast<std::int64_t>(count), nullptr);
    wait();
    const auto given = widen(from.values()), got = widen(to.values());
    std::size_t wrong = 0;
    for (std::size_t i = shift; i < count + shift; ++i) {
        wrong += got[i] == rounded(given[i], std::min(kDigits<From>, kDigits<To>)) ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(got[count + shift] == 5.0);
}

TEST_CASE("conversion rounds to nearest even, in packs and without") {
    for (const std::size_t count : {0, 1, 7, 8, 4'096, 5'003}) {
        for (const std::size_t shift : {0, 1}) {
            check_convert<double, float>(count, shift);
            check_convert<double, BFloat16>(count, shift);
            check_convert<float, double>(count, shift);
            check_convert<float, BFloat16>(count, shift);
            check_convert<BFloat16, double>(count, shift);
            check_convert<BFloat16, float>(count, shift);
        }
    }
}

TEST_CASE("conversion keeps NaN") {
    DeviceBuffer<double> from(std::vector<double>(3, std::nan("")));
    DeviceBuffer<BFloat16> to(narrow<BFloat16>({1, 2, 3}));
    cuda::convert(from.data(), to.data(), 3, nullptr);
    wait();
    for (const double value : widen(to.values())) {
        CHECK(std::isnan(value));
    }
}

TEST_CASE_TEMPLATE("heads first and tokens first", T, float, double) {
    for (const auto& [rows, heads] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {257, 28}, {64, 33}, {0, 7}}) {
        const auto values = random_values<T>(rows * heads, 1);
        std::vector<double> expected(values.size());
        for (std::int64_t i = 0; i < rows * heads; ++i) {
            expected[i % heads * rows + i / heads] = values[i];
        }
        DeviceBuffer<T> in(narrow<T>(values)), out(values.size()), back(values.size());
        cuda::heads_first(in.data(), out.data(), rows, heads, nullptr);
        cuda::tokens_first(out.data(), back.data(), rows, heads, nullptr);
        wait();
        CHECK(widen(out.values()) == expected);
        CHECK(widen(back.values()) == values);
    }
}

// Up to 5,000 numbers of mean 1: the magnitudes add up to 1.2 times the largest result, by way of 10 rows, 8 warps and
// 64 / 16 + 16 partial sums, so that the suite's tolerance holds.
TEST_CASE_TEMPLATE("column sums", T, double, float, BFloat16) {
    using A = Accumulator<T>;
    for (const auto& [count, width] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {5'000, 264}, {63, 1'031}, {600, 8}, {0, 5}, {9, 520}}) {
        CAPTURE(count);
        CAPTURE(width);
        auto values = random_values<T>(count * width, 1);
        for (double& value : values) {
            value += 1;
        }
        values = widen(narrow<T>(values));
        const auto before = random_values<A>(width, 2);
        auto expected = before;
        for (std::int64_t i = 0; i < count * width; ++i) {
            expected[i % width] += values[i];
        }
        DeviceBuffer<T> rows(narrow<T>(values));
        DeviceBuffer<A> sums(narrow<A>(before));
        DeviceBuffer<std::byte> workspace(cuda::column_sums_workspace_bytes<T>(count, width));
        cuda::add_column_sums(rows.data(), count, width, sums.data(), workspace.data(), nullptr);
        wait();
        CHECK(relative_error(sums.values(), expected) < kTolerance<T, A>);
    }
}

double expected_normal(std::uint64_t seed, std::uint64_t element) {
    const auto mixed = [](std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    };
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
    const std::uint64_t draw = mixed(mixed(seed + kStep) + (element + 1) * kStep);
    const double radius = std::sqrt(-2 * std::log(double((draw >> 40) + 1) * 0x1p-24));
    return radius * std::cos(2 * 3.14159265358979323846 * double(draw & 0xffffff) * 0x1p-24);
}

template <class T>
std::vector<double> normal_values(std::int64_t count, std::uint64_t seed, std::size_t shift = 0,
                                  std::int64_t first = 0) {
    DeviceBuffer<T> values(static_cast<std::size_t>(count) + shift);
    cuda::fill_normal(values.data() + shift, count, 0.02, seed, nullptr, first);
    wait();
    auto result = widen(values.values());
    result.erase(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(shift));
    return result;
}

// Root, logarithm and cosine are off by at most 2 roundoffs each, the products by one: 8 roundoffs of 5.8 at most.
TEST_CASE_TEMPLATE("normal values depend on seed and element alone", T, float, BFloat16) {
    constexpr std::int64_t kCount = 4'099;
    const auto values = normal_values<T>(kCount, 12);
    std::vector<double> expected;
    for (std::uint64_t i = 0; i < kCount; ++i) {
        expected.push_back(0.02 * expected_normal(12, i));
    }
    CHECK(relative_error(values, expected) < 16 * kRoundoff<float> + (sizeof(T) == 2 ? kRoundoff<T> : 0));
    CHECK(normal_values<T>(kCount, 12, 1) == values);
    CHECK(normal_values<T>(kCount, 13) != values);
    CHECK(normal_values<T>(kCount - 99, 12, 0, 99) == std::vector<double>(values.begin() + 99, values.end()));
    CHECK(normal_values<T>(0, 13).empty());
}

// Of n = 2^20 values the mean is off by 1 / sqrt(n) = 1e-3 standard deviations, the variance by sqrt(2 / n) = 1.4e-3
// and the fourth moment by sqrt(96 / n) = 1e-2, each as a standard deviation: five of them are allowed.
TEST_CASE("normal values have the moments of the normal distribution") {
    constexpr std::int64_t kCount = 1 << 20;
    double sum = 0, squares = 0, fourths = 0;
    for (const double value : normal_values<float>(kCount, 3)) {
        const double x = value / 0.02;
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
    }
    CHECK(std::abs(sum / kCount) < 5e-3);
    CHECK(std::abs(squares / kCount - 1) < 7e-3);
    CHECK(std::abs(fourths / kCount - 3) < 5e-2);
}

}  // namespace
}  // namespace oomb::kernels::test
