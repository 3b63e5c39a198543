#pragma once
// Operands of the optimizer pass: AdamW over one run of parameters.

#include <bit>
#include <cstdint>

#include "kernels/element.hpp"

namespace oomb::kernels {

// An fp32 master weight in two halves of 16 bits: the bf16 weight that the products read anyway, and the low 16 bits of
// the master, its remainder. No bit is lost: the weight is the upper half, plus 1 where the remainder is 0x8000 or
// more, which the remainder tells when they are joined again.
//
// So the weight is the master rounded to nearest. It differs from rounding to nearest even only where the master lies
// exactly between two bf16 numbers (remainder 0x8000): there it is the one farther from zero, not the even one. As with
// nearest even, a master beyond the largest bf16 number and a half has an infinite weight; the two still join to the
// finite master. NaN becomes the quiet NaN 0x7fc00000, for 1 added to its upper half could make it look like a number.
struct SplitWeight {
    BFloat16 weight;
    std::uint16_t remainder = 0;
};

constexpr SplitWeight split_weight(float master) {
    const auto bits = std::bit_cast<std::uint32_t>(master);
    SplitWeight split;
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        split.weight.bits = 0x7fc0U;
        return split;
    }
    split.remainder = static_cast<std::uint16_t>(bits & 0xffffU);
    split.weight.bits = static_cast<std::uint16_t>((bits >> 16) + (split.remainder >> 15));
    return split;
}

constexpr float join_weight(BFloat16 weight, std::uint16_t remainder) {
    const auto upper = static_cast<std::uint16_t>(weight.bits - (remainder >> 15));
    return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16 | remainder);
}

// AdamW with decoupled decay (Loshchilov and Hutter, arXiv 1711.05101, Algorithm 2), as torch.optim.AdamW:
//     g = gradient_scale * gradient,  m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//     w = w (1 - lr decay) - lr / (1 - beta1^step) * m / (sqrt(v / (1 - beta2^step)) + eps).
// With learning_rate 0 the weights keep their bits (-0 too); m and v move.
// G is the type in which the gradient is stored: Accumulator<T>, or T.
// Master weights lie in `weights`, or, where T is BFloat16, split between `weights_copy` and `remainders`. Both ways
// give the same masters, bit for bit.
template <class T, class G = Accumulator<T>>
struct AdamWStep {
    Accumulator<T>* weights = nullptr;    // in/out [count], the master weights; null with remainders
    const G* gradient = nullptr;          // [count]
    Accumulator<T>* m = nullptr;          // in/out [count], 0 before the first step
    Accumulator<T>* v = nullptr;          // in/out [count], 0 before the first step
    T* weights_copy = nullptr;            // out [count] or null: the new weights rounded to T; with remainders in/out
    std::uint16_t* remainders = nullptr;  // in/out [count] or null, see SplitWeight
    std::int64_t count = 0;
    std::int64_t step = 1;  // 1 for the first
    double learning_rate = 0;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0;
    double gradient_scale = 1.0;  // from clipping by the global norm
};

}  // namespace oomb::kernels
