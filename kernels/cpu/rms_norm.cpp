#include "kernels/cpu/rms_norm.hpp"

#include <vector>

#include "kernels/cpu/head_rows.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/parallel.hpp"

namespace oomb::kernels::cpu {
namespace {

// Rows whose weight gradients are summed by one thread. Fixed, so that the order of sums is.
constexpr std::int64_t kRowBlock = 64;

// `partial` must be written before dx: dx may be dy.
template <class T>
void backward_row(const RmsNormBackward<T>& args, std::int64_t row, Accumulator<T>* partial) {
    using A = Accumulator<T>;
    const std::int64_t width = args.width;
    const T* weight = args.weight;
    const T* x = args.x + row * width;
    const T* dy = args.dy + row * width;
    T* dx = args.dx + row * width;
    const A r = inverse_root_mean_square(x, width, args.eps);
    const A projection =
        sum_in_lanes<A>(width, [=](std::int64_t i) { return load(weight[i]) * load(dy[i]) * load(x[i]); });
    const A along_x = r * r * r / A(width) * projection;
    for (std::int64_t i = 0; i < width; ++i) {
        partial[i] += load(dy[i]) * (load(x[i]) * r);
    }
    if (args.add_to_dx) {
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) {
            store(dx[i], load(dx[i]) + (r * load(weight[i]) * load(dy[i]) - along_x * load(x[i])));
        }
        return;
    }
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
        store(dx[i], r * load(weight[i]) * load(dy[i]) - along_x * load(x[i]));
    }
}

}  // namespace

template <class T>
void rms_norm_forward(const RmsNormForward<T>& args) {
    using A = Accumulator<T>;
    parallel_rows(args.rows, [&](std::int64_t row) {
        const T* weight = args.weight;
        const T* x = args.x + row * args.width;
        T* y = args.y + row * args.width;
        const A r = inverse_root_mean_square(x, args.width, args.eps);
#pragma omp simd
        for (std::int64_t i = 0; i < args.width; ++i) {
            store(y[i], load(weight[i]) * (load(x[i]) * r));
        }
    });
}

template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args) {
    using A = Accumulator<T>;
    const std::int64_t blocks = blocks_of(args.rows, kRowBlock);
    std::vector<A> partials(blocks * args.width);
    parallel_blocks(args.rows, kRowBlock, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            backward_row(args, row, partials.data() + block * args.width);
        }
    });
    for (std::int64_t block = 0; block < blocks; ++block) {
        for (std::int64_t i = 0; i < args.width; ++i) {
            args.d_weight[i] += partials[block * args.width + i];
        }
    }
}

template void rms_norm_forward(const RmsNormForward<double>&);
template void rms_norm_forward(const RmsNormForward<float>&);
template void rms_norm_forward(const RmsNormForward<BFloat16>&);
template void rms_norm_backward(const RmsNormBackward<double>&);
template void rms_norm_backward(const RmsNormBackward<float>&);
template void rms_norm_backward(const RmsNormBackward<BFloat16>&);

}  // namespace oomb::kernels::cpu
