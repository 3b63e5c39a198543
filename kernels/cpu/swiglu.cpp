#include "kernels/cpu/swiglu.hpp"

#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

void require_stride(std::int64_t width, std::int64_t row_stride) {
    require(row_stride >= width, "swiglu: row stride {} is less than the width {}", row_stride, width);
}

}  // namespace

template <class T>
void swiglu_forward(const SwigluForward<T>& args) {
    using A = Accumulator<T>;
    require_stride(args.width, args.row_stride);
    parallel_rows(args.rows, [&](std::int64_t row) {
        const T* gate = args.gate + row * args.row_stride;
        const T* up = args.up + row * args.row_stride;
        T* act = args.act + row * args.width;
#pragma omp simd
        for (std::int64_t i = 0; i < args.width; ++i) {
            const A g = load(gate[i]);
            store(act[i], g / (1 + exponential(-g)) * load(up[i]));
        }
    });
}

template <class T>
void swiglu_backward(const SwigluBackward<T>& args) {
    using A = Accumulator<T>;
    require_stride(args.width, args.row_stride);
    parallel_rows(args.rows, [&](std::int64_t row) {
        const T* d_act = args.d_act + row * args.width;
        const T* gate = args.gate + row * args.row_stride;
        const T* up = args.up + row * args.row_stride;
        T* d_gate = args.d_gate + row * args.row_stride;
        T* d_up = args.d_up + row * args.row_stride;
#pragma omp simd
        for (std::int64_t i = 0; i < args.width; ++i) {
            const A g = load(gate[i]);
            const A u = load(up[i]);
            const A d = load(d_act[i]);
            const A s = 1 / (1 + exponential(-g));
            store(d_gate[i], d * u * (s * (1 + g * (1 - s))));
            store(d_up[i], d * (g * s));
        }
    });
}

template void swiglu_forward(const SwigluForward<double>&);
template void swiglu_forward(const SwigluForward<float>&);
template void swiglu_forward(const SwigluForward<BFloat16>&);
template void swiglu_backward(const SwigluBackward<double>&);
template void swiglu_backward(const SwigluBackward<float>&);
template void swiglu_backward(const SwigluBackward<BFloat16>&);

}  // namespace oomb::kernels::cpu
