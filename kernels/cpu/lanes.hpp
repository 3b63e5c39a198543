#pragma once
// Inner loops that the compiler can vectorise without changing bits: sums run in a fixed number of lanes, and exp is
// plain arithmetic. A library's vector exp differs from its scalar one, so results would depend on alignment and tails.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace oomb::kernels::cpu {

constexpr std::int64_t kLanes = 16;

// Sum of term(i), i in [0, count): lane i % kLanes takes term i, then the lanes are added in order.
template <class A, class Term>
inline A sum_in_lanes(std::int64_t count, const Term& term) {
    A lanes[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] += term(i + lane);
        }
    }
    for (std::int64_t lane = 0; i + lane < count; ++lane) {
        lanes[lane] += term(i + lane);
    }
    A sum = 0;
    for (const A lane : lanes) {
        sum += lane;
    }
    return sum;
}

// The largest term(i), or -inf for none; a NaN is passed over, so callers detect it by other means.
template <class A, class Term>
inline A max_in_lanes(std::int64_t count, const Term& term) {
    A lanes[kLanes];
    for (A& lane : lanes) {
        lane = -std::numeric_limits<A>::infinity();
    }
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            const A value = term(i + lane);
            lanes[lane] = value > lanes[lane] ? value : lanes[lane];
        }
    }
    for (std::int64_t lane = 0; i + lane < count; ++lane) {
        const A value = term(i + lane);
        lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
    A largest = lanes[0];
    for (const A lane : lanes) {
        largest = lane > largest ? lane : largest;
    }
    return largest;
}

inline double exponential(double x) {
    return std::exp(x);
}

// exp(x) to 2 ulp where the result is a normal number; 0 below -87.3, +inf above 88.7, NaN stays NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts (Cody and Waite); the Taylor series of exp(r) to r^7 / 7!
// leaves (ln 2 / 2)^8 / 8! = 5e-9, a tenth of an ulp. Adding 1.5 * 2^23 rounds n to the nearest integer.
inline float exponential(float x) {
    constexpr float kLargest = 88.72284F;    // ln(FLT_MAX) rounded up
    constexpr float kSmallest = -87.33654F;  // ln(FLT_MIN)
    constexpr float kRounder = 12582912.0F;
    float clamped = x < kSmallest ? kSmallest : x;
    clamped = clamped > kLargest ? kLargest : clamped;
    const float shifted = clamped * 1.44269504F + kRounder;
    const float n = shifted - kRounder;
    const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
    float p = 1.0F / 5040;
    p = p * r + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * (r * r) + (r + 1.0F);
    // 2^n in two factors: n = 128 alone would not be a finite float. The low bits of `shifted` hold n.
    const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRounder);
    const std::int32_t half = exponent >> 1;
    const float low = std::bit_cast<float>((half + 127) << 23);
    const float high = std::bit_cast<float>((exponent - half + 127) << 23);
    float result = p * low * high;
    result = x < kSmallest ? 0.0F : result;
    result = x > kLargest ? std::numeric_limits<float>::infinity() : result;
    return x != x ? x : result;
}

}  // namespace oomb::kernels::cpu
