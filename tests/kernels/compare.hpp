#pragma once
// Inputs that are exact in the storage type, and the error of a result against the float64 oracle.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/element.hpp"

namespace oomb::kernels::test {

template <class T>
std::vector<T> narrow(const std::vector<double>& values) {
    std::vector<T> result(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        store(result[i], static_cast<Accumulator<T>>(values[i]));
    }
    return result;
}

template <class T>
std::vector<double> widen(const std::vector<T>& values) {
    std::vector<double> result(values.size());
    std::transform(values.begin(), values.end(), result.begin(), [](const T& value) { return double(load(value)); });
    return result;
}

// Normally distributed with standard deviation `spread`, rounded to T: the oracle sees what the kernel sees.
template <class T>
std::vector<double> random_values(std::int64_t count, unsigned seed, double spread = 1.0) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(0.0, spread);
    std::vector<double> values(count);
    std::generate(values.begin(), values.end(), [&] { return normal(generator); });
    return widen(narrow<T>(values));
}

// Largest difference over the largest expected magnitude. Infinities must match; a NaN anywhere makes it infinite.
inline double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double difference = actual.size() == expected.size() ? 0 : kInfinity;
    double largest = 0;
    for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
        if (actual[i] == expected[i]) {
            largest = std::isinf(expected[i]) ? largest : std::max(largest, std::abs(expected[i]));
            continue;
        }
        const double here = std::abs(actual[i] - expected[i]);
        difference = std::isfinite(here) ? std::max(difference, here) : kInfinity;
        largest = std::max(largest, std::abs(expected[i]));
    }
    return difference == 0 || largest == 0 ? difference : difference / largest;
}

template <class T>
double relative_error(const std::vector<T>& actual, const std::vector<double>& expected) {
    return relative_error(widen(actual), expected);
}

// Unit roundoff of a type: half the distance from 1 to the next number.
template <class T>
constexpr double kRoundoff = std::is_same_v<T, double>  ? 0x1p-53
                             : std::is_same_v<T, float> ? 0x1p-24
                                                        : 0x1p-8;

// Tolerance of a result of arithmetic in Accumulator<T> that ends in E. A sum of n terms in 16 lanes is off by at most
// (n / 16 + 16) roundoffs of the sum of magnitudes. The cases here have n <= 512 terms and sums of magnitudes within 5
// times the largest result (exponents included): 48 * 5 roundoffs, rounded up to 256. The last rounding adds one of E.
// In float64 this is 3e-14, below the 1e-12 that oracle mode promises.
template <class T, class E>
constexpr double kTolerance = 256 * kRoundoff<Accumulator<T>> + (std::is_same_v<E, Accumulator<T>> ? 0 : kRoundoff<E>);

}  // namespace oomb::kernels::test
