#pragma once
// Operands of SwiGLU: act = silu(gate) * up, silu(g) = g / (1 + exp(-g)).

#include <cstdint>

#include "kernels/element.hpp"

namespace oomb::kernels {

// gate and up may be two halves of one [rows, 2 * width] buffer: row_stride = 2 * width, up = gate + width.
template <class T>
struct SwigluForward {
    const T* gate = nullptr;  // [rows, width] with row_stride elements from row to row
    const T* up = nullptr;    // the same
    T* act = nullptr;         // out [rows, width], dense; may be gate or up where row_stride = width
    std::int64_t rows = 0;
    std::int64_t width = 0;
    std::int64_t row_stride = 0;  // elements, >= width
};

// d_gate = d_act up silu'(gate),  d_up = d_act silu(gate),  silu'(g) = s (1 + g (1 - s)),  s = 1 / (1 + exp(-g)).
template <class T>
struct SwigluBackward {
    const T* d_act = nullptr;  // [rows, width], dense
    const T* gate = nullptr;   // [rows, width], row_stride
    const T* up = nullptr;     // [rows, width], row_stride
    T* d_gate = nullptr;       // out [rows, width], row_stride; may be gate
    T* d_up = nullptr;         // out [rows, width], row_stride; may be up
    std::int64_t rows = 0;
    std::int64_t width = 0;
    std::int64_t row_stride = 0;
};

}  // namespace oomb::kernels
