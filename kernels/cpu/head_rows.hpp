#pragma once
// Norm and rotation of one row of one head.

#include <cmath>
#include <cstdint>

#include "kernels/cpu/lanes.hpp"
#include "kernels/element.hpp"

namespace oomb::kernels::cpu {

template <class T>
Accumulator<T> inverse_root_mean_square(const T* x, std::int64_t width, double eps) {
    using A = Accumulator<T>;
    const A squares = sum_in_lanes<A>(width, [=](std::int64_t i) { return load(x[i]) * load(x[i]); });
    return 1 / std::sqrt(squares / A(width) + A(eps));
}

// Cosines and sines of one position times the attention factor, [half] each.
template <class A>
struct SineRow {
    A* cosine;
    A* sine;
    std::int64_t half;

    // `direction` is 1 for forward and -1 for backward. std::sin of a double reduces exactly at any position.
    void fill(std::int64_t position, const float* inverse_frequency, double attention_factor, double direction) const {
        for (std::int64_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(position) * static_cast<double>(inverse_frequency[i]);
            cosine[i] = static_cast<A>(std::cos(angle)) * A(attention_factor);
            sine[i] = static_cast<A>(direction * std::sin(angle)) * A(attention_factor);
        }
    }
};

template <class T>
void rotate_head(T* x, const SineRow<Accumulator<T>>& row) {
    using A = Accumulator<T>;
    const A* cosine = row.cosine;
    const A* sine = row.sine;
    const std::int64_t half = row.half;
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
        const A low = load(x[i]);
        const A high = load(x[i + half]);
        store(x[i], low * cosine[i] - high * sine[i]);
        store(x[i + half], high * cosine[i] + low * sine[i]);
    }
}

}  // namespace oomb::kernels::cpu
