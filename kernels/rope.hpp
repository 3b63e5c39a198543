#pragma once
// Operands of rotary position embedding at absolute positions, in transformers' rotate-half convention:
//     y[i]     = x[i] cos(a_i) - x[i + d/2] sin(a_i)
//     y[i+d/2] = x[i + d/2] cos(a_i) + x[i] sin(a_i),   a_i = position * inverse_frequency[i],  i < d/2.
// The product and its range reduction are float64 (fp32 products are off by 0.03 rad at a million tokens); sine and
// cosine are rounded to Accumulator<T> and multiplied by attention_factor (YaRN).

#include <cstdint>

#include "kernels/element.hpp"

namespace oomb::kernels {

// Backward takes the gradient in x and rotates it by the opposite angle, with the same factor.
template <class T>
struct RopeRotation {
    T* x = nullptr;                            // in/out [rows, heads, head_dim]
    const float* inverse_frequency = nullptr;  // [head_dim / 2]
    double attention_factor = 1.0;
    std::int64_t rows = 0;
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;                // even
    std::int64_t first_position = 0;          // row i is at first_position + i ...
    const std::int64_t* positions = nullptr;  // ... or at positions[i] if given, [rows]
};

}  // namespace oomb::kernels
