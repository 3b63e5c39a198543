#pragma once
// How far attention may be from float64 if weights and gradients of scores are rounded to bfloat16 before they are
// multiplied, and all else is fp32: a bound for each element, from the definition, in float64.
//
// With u half a bfloat16's spacing at 1, p the weights and ds = p (dp - delta):
//     o  off by  (u + 2 e) sum p |v|          the same e in the sum that divides
//     dv off by  (u + e) sum p |d_o|
//     dq off by  scale sum ((u + e) |ds| + p f) |k|,   dk the same with |q|
// where e is the error of a score, and so the relative error of its weight, and f that of dp. A sum of n products in
// fp32 is off by at most n roundoffs of the sum of magnitudes; tensor cores align the 16 products of a step and may
// drop bits below the largest's last, which a factor of 2 covers.

#include <cmath>
#include <vector>

#include "tests/kernels/compare.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {

struct RoundingBounds {
    std::vector<double> o, dq, dk, dv;
    double score = 0;  // e, absolute: of the log-sum-exp too
};

// `lse` and `delta` as the oracle has them.
inline RoundingBounds rounding_bounds(const oracle::AttentionInput& in, const oracle::AttentionResult& expected) {
    constexpr double kUnit = kRoundoff<BFloat16>, kSingle = kRoundoff<float>;
    const std::int64_t size = in.head_dim, group = in.query_heads / in.kv_heads;
    const double of_dot = 2 * static_cast<double>(size) * kSingle;
    const double of_sum = static_cast<double>(in.keys + in.tokens * group) * kSingle;  // over keys, or queries
    RoundingBounds bounds{std::vector<double>(in.q.size()), std::vector<double>(in.q.size()),
                          std::vector<double>(in.k.size()), std::vector<double>(in.k.size())};
    const auto dot = [&](const double* a, const double* b, double& magnitudes) {
        double sum = 0;
        magnitudes = 0;
        for (std::int64_t i = 0; i < size; ++i) {
            sum += a[i] * b[i];
            magnitudes += std::abs(a[i] * b[i]);
        }
        return sum;
    };
    const auto for_each_pair = [&](const auto& take) {
        for (std::int64_t row = 0; row < in.tokens * in.query_heads; ++row) {
            const std::int64_t kv_head = row % in.query_heads / group;
            for (std::int64_t key = 0; key < in.keys; ++key) {
                if (in.visible[row / in.query_heads * in.keys + key] != 0) {
                    take(row, (key * in.kv_heads + kv_head) * size);
                }
            }
        }
    };
    for_each_pair([&](std::int64_t row, std::int64_t at) {
        double magnitudes = 0;
        dot(&in.q[row * size], &in.k[at], magnitudes);
        // The score, its power of two and the log-sum-exp that it is relative to, each rounded a few times.
        const double largest = magnitudes * in.scale + std::abs(expected.lse[row]);
        bounds.score = std::max(bounds.score, of_dot * magnitudes * in.scale + 8 * kSingle * (1 + largest));
    });
    for_each_pair([&](std::int64_t row, std::int64_t at) {
        double magnitudes = 0;
        const double* q = &in.q[row * size];
        const double* d_o = &in.d_o[row * size];
        const double p = std::exp(in.scale * dot(q, &in.k[at], magnitudes) - expected.lse[row]);
        const double ds = p * std::abs(dot(d_o, &in.v[at], magnitudes) - expected.delta[row]);
        const double of_ds = (kUnit + bounds.score + of_sum) * ds +
                             p * (of_dot * magnitudes + 4 * kSingle * (magnitudes + std::abs(expected.delta[row])));
        for (std::int64_t i = 0; i < size; ++i) {
            bounds.o[row * size + i] += (kUnit + 2 * bounds.score + 2 * of_sum) * p * std::abs(in.v[at + i]);
            bounds.dv[at + i] += (kUnit + bounds.score + of_sum) * p * std::abs(d_o[i]);
            bounds.dq[row * size + i] += in.scale * of_ds * std::abs(in.k[at + i]);
            bounds.dk[at + i] += in.scale * of_ds * std::abs(q[i]);
        }
    });
    return bounds;
}

// Largest |actual - expected| / bound: 1 at most if the bound holds. A NaN, or an error where none is allowed, is
// infinite.
inline double excess(const std::vector<double>& actual, const std::vector<double>& expected,
                     const std::vector<double>& bound) {
    double largest = actual.size() == expected.size() ? 0 : HUGE_VAL;
    for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
        const double error = std::abs(actual[i] - expected[i]);
        if (actual[i] != expected[i]) {  // infinities may be equal
            largest = std::max(largest, std::isfinite(error) && bound[i] > 0 ? error / bound[i] : HUGE_VAL);
        }
    }
    return largest;
}

// The same in the mean: root of the mean square of errors over that of bounds.
inline double mean_excess(const std::vector<double>& actual, const std::vector<double>& expected,
                          const std::vector<double>& bound) {
    double errors = 0, bounds = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        errors += (actual[i] - expected[i]) * (actual[i] - expected[i]);
        bounds += bound[i] * bound[i];
    }
    return errors == 0 ? 0 : std::sqrt(errors / bounds);
}

}  // namespace oomb::kernels::test
