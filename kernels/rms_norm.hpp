#pragma once
// Operands of RMSNorm: y = weight * x * r, r = 1 / sqrt(mean(x^2) + eps), per row.
// The norm of Q or K per head (Qwen3) is the same with rows = tokens * heads and width = head_dim.
// Arithmetic runs in Accumulator<T> and is rounded once, into y (transformers rounds x * r to T before the weight).

#include <cstdint>

#include "kernels/element.hpp"

namespace oomb::kernels {

template <class T>
struct RmsNormForward {
    const T* x = nullptr;       // [rows, width]
    const T* weight = nullptr;  // [width]
    T* y = nullptr;             // out [rows, width]; may be x
    std::int64_t rows = 0;
    std::int64_t width = 0;
    double eps = 0;
};

// r is recomputed from x: nothing of the forward pass is kept but x.
//     dx = r weight dy - x r^3 / width * sum(weight dy x),   d_weight += sum over rows of dy x r.
template <class T>
struct RmsNormBackward {
    const T* dy = nullptr;               // [rows, width]
    const T* x = nullptr;                // [rows, width]
    const T* weight = nullptr;           // [width]
    T* dx = nullptr;                     // out [rows, width]; may be dy
    Accumulator<T>* d_weight = nullptr;  // in/out [width], accumulated
    std::int64_t rows = 0;
    std::int64_t width = 0;
    double eps = 0;
    bool add_to_dx = false;  // dx += instead of dx = (the residual's gradient is there already)
};

}  // namespace oomb::kernels
