// The float exponential and the sums in lanes.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/lanes.hpp"

namespace oomb::kernels::cpu {
namespace {

TEST_CASE("the float exponential is within 2 ulp where its result is normal") {
    double worst = 0;
    for (int i = 0; i <= 2'000'000; ++i) {
        const float x = -87.336F + static_cast<float>(i) * (176.058F / 2'000'000);
        const double expected = std::exp(double(x));
        const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
        worst = std::max(worst, std::abs(double(exponential(x)) - expected) / ulp);
    }
    CHECK(worst < 2.0);
}

TEST_CASE("the ends of the float exponential") {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    CHECK(exponential(0.0F) == 1.0F);
    CHECK(exponential(-0.0F) == 1.0F);
    CHECK(exponential(-kInf) == 0.0F);
    CHECK(exponential(-1e30F) == 0.0F);
    CHECK(exponential(-87.34F) == 0.0F);
    CHECK(exponential(kInf) == kInf);
    CHECK(exponential(88.73F) == kInf);
    CHECK(exponential(1e30F) == kInf);
    CHECK(std::isfinite(exponential(88.722F)));
    CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
    CHECK(std::isnan(exponential(-std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("sums and maxima take every term once, whatever the count") {
    for (std::int64_t count = 0; count < 50; ++count) {
        const auto term = [](std::int64_t i) { return double(i + 1); };
        CHECK(sum_in_lanes<double>(count, term) == 0.5 * double(count * (count + 1)));
        for (std::int64_t top = 0; top < count; ++top) {
            CHECK(max_in_lanes<double>(count, [&](std::int64_t i) { return i == top ? -1.0 : -2.0; }) == -1.0);
        }
    }
    CHECK(max_in_lanes<float>(0, [](std::int64_t) { return 0.0F; }) == -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace oomb::kernels::cpu
