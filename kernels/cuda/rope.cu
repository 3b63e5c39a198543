#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rope.hpp"
#include "kernels/cuda/sines.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kRows = 4;  // a block's: with head_dim 128 each thread computes one sine and cosine
constexpr std::int64_t kMostHeadDim = 512;

template <class T, int N>
__device__ void rotate_pack(T* low_at, T* high_at, const Accumulator<T>* sine, const Accumulator<T>* cosine) {
    auto low_pack = load_pack<N>(low_at);
    auto high_pack = load_pack<N>(high_at);
    for (int j = 0; j < N; ++j) {
        const auto low = widen(low_pack.e[j]);
        const auto high = widen(high_pack.e[j]);
        low_pack.e[j] = narrow<T>(low * cosine[j] - high * sine[j]);
        high_pack.e[j] = narrow<T>(high * cosine[j] + low * sine[j]);
    }
    store_pack(low_at, low_pack);
    store_pack(high_at, high_pack);
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock) rotate_kernel(const RopeRotation<T> args, double direction) {
    using A = Accumulator<T>;
    __shared__ A sines[kRows * kMostHeadDim / 2];
    __shared__ A cosines[kRows * kMostHeadDim / 2];
    const int half = static_cast<int>(args.head_dim / 2);
    const std::int64_t first = std::int64_t{blockIdx.x} * kRows;
    const int rows = static_cast<int>(args.rows - first < kRows ? args.rows - first : kRows);
    SineTable<A>{sines, cosines, half}.fill(args, direction, rows, [&](int row) {
        return args.positions != nullptr ? args.positions[first + row] : args.first_position + first + row;
    });
    __syncthreads();
    const int packs = half / N;  // of half a head
    const int row_packs = static_cast<int>(args.heads) * packs;
    for (int at = threadIdx.x; at < rows * row_packs; at += kBlock) {
        const int row = at / row_packs;
        const int head = at % row_packs / packs;
        const int column = at % packs * N;
        T* x = args.x + ((first + row) * args.heads + head) * args.head_dim + column;
        rotate_pack<T, N>(x, x + half, sines + row * half + column, cosines + row * half + column);
    }
}

template <class T>
void rotate(const RopeRotation<T>& args, double direction, cudaStream_t stream) {
    require_operand(args.head_dim % 2 == 0 && args.head_dim <= kMostHeadDim, "rope", "head_dim", args.head_dim,
                    "even and 512 at most");
    if (args.rows == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    if (args.head_dim / 2 % kPack == 0 && aligned_for_packs(args.x)) {
        rotate_kernel<T, kPack><<<blocks_for(args.rows, kRows), kBlock, 0, stream>>>(args, direction);
    } else {
        rotate_kernel<T, 1><<<blocks_for(args.rows, kRows), kBlock, 0, stream>>>(args, direction);
    }
    check_launch("rope");
}

}  // namespace

template <class T>
void rope_forward(const RopeRotation<T>& args, cudaStream_t stream) {
    rotate(args, 1.0, stream);
}

template <class T>
void rope_backward(const RopeRotation<T>& args, cudaStream_t stream) {
    rotate(args, -1.0, stream);
}

template void rope_forward(const RopeRotation<double>&, cudaStream_t);
template void rope_forward(const RopeRotation<float>&, cudaStream_t);
template void rope_forward(const RopeRotation<BFloat16>&, cudaStream_t);
template void rope_backward(const RopeRotation<double>&, cudaStream_t);
template void rope_backward(const RopeRotation<float>&, cudaStream_t);
template void rope_backward(const RopeRotation<BFloat16>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
