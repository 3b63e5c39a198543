#include "kernels/cuda/element.cuh"
#include "kernels/cuda/swiglu.hpp"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 128;
constexpr std::int64_t kMostRows = 65'535;  // of a grid's second dimension; further rows are a loop

// 1 / (1 + exp(-g)); both ends are exact, as exp reaches 0 and infinity.
__device__ inline float sigmoid(float g) {
    return __fdividef(1.0F, 1.0F + expf(-g));
}
__device__ inline double sigmoid(double g) {
    return 1 / (1 + exp(-g));
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock) forward_kernel(const SwigluForward<T> args) {
    const std::int64_t column = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
    if (column >= args.width) {
        return;
    }
    for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
        auto gate = load_pack<N>(args.gate + row * args.row_stride + column);
        const auto up = load_pack<N>(args.up + row * args.row_stride + column);
        for (int j = 0; j < N; ++j) {
            const auto g = widen(gate.e[j]);
            gate.e[j] = narrow<T>(g * sigmoid(g) * widen(up.e[j]));
        }
        store_pack(args.act + row * args.width + column, gate);
    }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock) backward_kernel(const SwigluBackward<T> args) {
    const std::int64_t column = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
    if (column >= args.width) {
        return;
    }
    for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
        const std::int64_t place = row * args.row_stride + column;
        const auto d_act = load_pack<N>(args.d_act + row * args.width + column);
        auto gate = load_pack<N>(args.gate + place);
        auto up = load_pack<N>(args.up + place);
        for (int j = 0; j < N; ++j) {
            const auto g = widen(gate.e[j]);
            const auto s = sigmoid(g);
            const auto d = widen(d_act.e[j]);
            gate.e[j] = narrow<T>(d * widen(up.e[j]) * s * (1 + g * (1 - s)));
            up.e[j] = narrow<T>(d * g * s);
        }
        store_pack(args.d_gate + place, gate);
        store_pack(args.d_up + place, up);
    }
}

dim3 grid_for(std::int64_t rows, std::int64_t width, int pack) {
    return {blocks_for(width, kBlock * pack), static_cast<unsigned>(rows < kMostRows ? rows : kMostRows)};
}

template <class Args>
bool packs_fit(const Args& args, std::int64_t pack) {
    return args.width % pack == 0 && args.row_stride % pack == 0 && aligned_for_packs(args.gate, args.up);
}

}  // namespace

template <class T>
void swiglu_forward(const SwigluForward<T>& args, cudaStream_t stream) {
    require_operand(args.row_stride >= args.width, "swiglu_forward", "row_stride", args.row_stride,
                    "the width at least");
    if (args.rows == 0 || args.width == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    if (packs_fit(args, kPack) && aligned_for_packs(args.act)) {
        forward_kernel<T, kPack><<<grid_for(args.rows, args.width, kPack), kBlock, 0, stream>>>(args);
    } else {
        forward_kernel<T, 1><<<grid_for(args.rows, args.width, 1), kBlock, 0, stream>>>(args);
    }
    check_launch("swiglu_forward");
}

template <class T>
void swiglu_backward(const SwigluBackward<T>& args, cudaStream_t stream) {
    require_operand(args.row_stride >= args.width, "swiglu_backward", "row_stride", args.row_stride,
                    "the width at least");
    if (args.rows == 0 || args.width == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    if (packs_fit(args, kPack) && aligned_for_packs(args.d_act, args.d_gate, args.d_up)) {
        backward_kernel<T, kPack><<<grid_for(args.rows, args.width, kPack), kBlock, 0, stream>>>(args);
    } else {
        backward_kernel<T, 1><<<grid_for(args.rows, args.width, 1), kBlock, 0, stream>>>(args);
    }
    check_launch("swiglu_backward");
}

template void swiglu_forward(const SwigluForward<double>&, cudaStream_t);
template void swiglu_forward(const SwigluForward<float>&, cudaStream_t);
template void swiglu_forward(const SwigluForward<BFloat16>&, cudaStream_t);
template void swiglu_backward(const SwigluBackward<double>&, cudaStream_t);
template void swiglu_backward(const SwigluBackward<float>&, cudaStream_t);
template void swiglu_backward(const SwigluBackward<BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
