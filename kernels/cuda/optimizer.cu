#include <algorithm>
#include <cmath>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/optimizer.hpp"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kMostBlocks = 1056;  // 8 per multiprocessor of an H200; fixed, so that sums are

// All that does not depend on the element, in float64 before it is rounded: in float 1 - 0.999 is off by 1e-5.
template <class A>
struct AdamWFactors {
    A beta1, beta2, rest1, rest2, scale, kept, rate, root_correction, eps;
    bool moves;  // -0 - (-0) is +0: with a learning rate of 0 the formula would change the sign of zero weights
};

template <class T, class G>
AdamWFactors<Accumulator<T>> factors_of(const AdamWStep<T, G>& args) {
    using A = Accumulator<T>;
    const double correction1 = 1 - std::pow(args.beta1, static_cast<double>(args.step));
    const double correction2 = 1 - std::pow(args.beta2, static_cast<double>(args.step));
    return {A(args.beta1),
            A(args.beta2),
            A(1 - args.beta1),
            A(1 - args.beta2),
            A(args.gradient_scale),
            A(1 - args.learning_rate * args.weight_decay),
            A(args.learning_rate / correction1),
            A(std::sqrt(correction2)),
            A(args.eps),
            args.learning_rate != 0};
}

// Where the master weights lie: whole, or split between the weights and their remainders.
enum class Masters : std::uint8_t { kWhole, kSplit };

template <Masters M, int N, class T, class G>
__device__ Pack<Accumulator<T>, N> load_masters(const AdamWStep<T, G>& args, std::int64_t i) {
    if constexpr (M == Masters::kWhole) {
        return load_pack<N>(args.weights + i);
    } else {
        const auto weights = load_pack<N>(args.weights_copy + i);
        const auto remainders = load_pack<N>(args.remainders + i);
        Pack<float, N> masters;
        for (int j = 0; j < N; ++j) {
            masters.e[j] = join_weight(weights.e[j], remainders.e[j]);
        }
        return masters;
    }
}

template <Masters M, int N, class T, class G>
__device__ void store_masters(const AdamWStep<T, G>& args, std::int64_t i, const Pack<Accumulator<T>, N>& masters) {
    Pack<T, N> weights;
    if constexpr (M == Masters::kWhole) {
        store_pack(args.weights + i, masters);
        for (int j = 0; j < N; ++j) {
            weights.e[j] = narrow<T>(masters.e[j]);
        }
    } else {
        Pack<std::uint16_t, N> remainders;
        for (int j = 0; j < N; ++j) {
            const SplitWeight split = split_weight(masters.e[j]);
            weights.e[j] = split.weight;
            remainders.e[j] = split.remainder;
        }
        store_pack(args.remainders + i, remainders);
    }
    if (args.weights_copy != nullptr) {
        store_pack(args.weights_copy + i, weights);
    }
}

template <Masters M, int N, class T, class G>
__device__ void update(const AdamWStep<T, G>& args, const AdamWFactors<Accumulator<T>>& f, std::int64_t i) {
    using A = Accumulator<T>;
    const auto gradient = load_pack<N>(args.gradient + i);
    auto weights = load_masters<M, N>(args, i);
    auto m = load_pack<N>(args.m + i);
    auto v = load_pack<N>(args.v + i);
    for (int j = 0; j < N; ++j) {
        const A g = f.scale * widen(gradient.e[j]);
        m.e[j] = f.beta1 * m.e[j] + f.rest1 * g;
        v.e[j] = f.beta2 * v.e[j] + f.rest2 * (g * g);
        if (f.moves) {
            weights.e[j] = weights.e[j] * f.kept - f.rate * m.e[j] / (sqrt(v.e[j]) / f.root_correction + f.eps);
        }
    }
    store_masters<M, N>(args, i, weights);
    store_pack(args.m + i, m);
    store_pack(args.v + i, v);
}

template <Masters M, int N, class T, class G>
__global__ void __launch_bounds__(kBlock)
    adamw_kernel(const AdamWStep<T, G> args, AdamWFactors<Accumulator<T>> factors) {
    const std::int64_t stride = std::int64_t{gridDim.x} * kBlock * N;
    std::int64_t i = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
    for (; i + N <= args.count; i += stride) {
        update<M, N>(args, factors, i);
    }
    for (; i < args.count; ++i) {  // fewer than N are left, and one thread has them
        update<M, 1>(args, factors, i);
    }
}

template <Masters M, class T, class G>
void launch_adamw(const AdamWStep<T, G>& args, cudaStream_t stream) {
    constexpr int kPack = kPackSize<Accumulator<T>>;
    const auto factors = factors_of(args);
    if (aligned_for_packs(args.weights, args.gradient, args.m, args.v, args.weights_copy, args.remainders)) {
        adamw_kernel<M, kPack><<<blocks_for(args.count, kBlock * kPack), kBlock, 0, stream>>>(args, factors);
    } else {
        adamw_kernel<M, 1><<<blocks_for(args.count, kBlock), kBlock, 0, stream>>>(args, factors);
    }
    check_launch("adamw_step");
}

__global__ void __launch_bounds__(kBlock)
    split_kernel(const float* masters, BFloat16* weights, std::uint16_t* remainders, std::int64_t count) {
    const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
    if (i < count) {
        const SplitWeight split = split_weight(masters[i]);
        weights[i] = split.weight;
        remainders[i] = split.remainder;
    }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock) squares_kernel(const T* values, std::int64_t count, double* partials) {
    const std::int64_t stride = std::int64_t{gridDim.x} * kBlock * N;
    std::int64_t i = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
    double sum = 0;
#pragma unroll 4
    for (; i + N <= count; i += stride) {
        const auto pack = load_pack<N>(values + i);
        for (int j = 0; j < N; ++j) {
            const double value = widen(pack.e[j]);
            sum += value * value;
        }
    }
    for (; i < count; ++i) {
        const double value = widen(values[i]);
        sum += value * value;
    }
    sum = sum_over<kBlock>(sum);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
    }
}

__global__ void __launch_bounds__(kBlock) sum_partials_kernel(const double* partials, int count, double* total) {
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += kBlock) {
        sum += partials[i];
    }
    sum = sum_over<kBlock>(sum);
    if (threadIdx.x == 0) {
        *total += sum;
    }
}

// -1 is the largest unsigned number, so the smallest index wins whatever the order of blocks.
template <class T, int N>
__global__ void __launch_bounds__(kBlock)
    non_finite_kernel(const T* values, std::int64_t count, unsigned long long* index) {
    const std::int64_t stride = std::int64_t{gridDim.x} * kBlock * N;
    std::int64_t i = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
#pragma unroll 4
    for (; i + N <= count; i += stride) {
        const auto pack = load_pack<N>(values + i);
        for (int j = 0; j < N; ++j) {
            if (!isfinite(widen(pack.e[j]))) {
                atomicMin(index, static_cast<unsigned long long>(i + j));
            }
        }
    }
    for (; i < count; ++i) {
        if (!isfinite(widen(values[i]))) {
            atomicMin(index, static_cast<unsigned long long>(i));
        }
    }
}

unsigned reduction_blocks(std::int64_t count, int pack) {
    return static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_for(count, std::int64_t{kBlock} * pack)));
}

}  // namespace

template <class T, class G>
void adamw_step(const AdamWStep<T, G>& args, cudaStream_t stream) {
    if (args.count == 0) {
        return;
    }
    if constexpr (std::is_same_v<T, BFloat16>) {
        if (args.remainders != nullptr) {
            launch_adamw<Masters::kSplit>(args, stream);
            return;
        }
    }
    launch_adamw<Masters::kWhole>(args, stream);
}

void split_masters(const float* masters, BFloat16* weights, std::uint16_t* remainders, std::int64_t count,
                   cudaStream_t stream) {
    if (count > 0) {
        split_kernel<<<blocks_for(count, kBlock), kBlock, 0, stream>>>(masters, weights, remainders, count);
        check_launch("split_masters");
    }
}

std::size_t sum_of_squares_workspace_bytes() {
    return kMostBlocks * sizeof(double);
}

template <class T>
void sum_of_squares(const T* values, std::int64_t count, double* sum, void* workspace, cudaStream_t stream) {
    if (count == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    auto* partials = static_cast<double*>(workspace);
    const unsigned blocks = reduction_blocks(count, kPack);
    if (aligned_for_packs(values)) {
        squares_kernel<T, kPack><<<blocks, kBlock, 0, stream>>>(values, count, partials);
    } else {
        squares_kernel<T, 1><<<blocks, kBlock, 0, stream>>>(values, count, partials);
    }
    check_launch("sum_of_squares");
    sum_partials_kernel<<<1, kBlock, 0, stream>>>(partials, static_cast<int>(blocks), sum);
    check_launch("sum_of_squares, sum of blocks");
}

template <class T>
void find_non_finite(const T* values, std::int64_t count, std::int64_t* index, cudaStream_t stream) {
    cudaMemsetAsync(index, 0xff, sizeof(*index), stream);
    check_launch("find_non_finite, clearing");
    if (count == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    auto* smallest = reinterpret_cast<unsigned long long*>(index);
    const unsigned blocks = reduction_blocks(count, kPack);
    if (aligned_for_packs(values)) {
        non_finite_kernel<T, kPack><<<blocks, kBlock, 0, stream>>>(values, count, smallest);
    } else {
        non_finite_kernel<T, 1><<<blocks, kBlock, 0, stream>>>(values, count, smallest);
    }
    check_launch("find_non_finite");
}

#define OOMB_INSTANTIATE(T)                                                             \
    template void adamw_step(const AdamWStep<T>&, cudaStream_t);                        \
    template void sum_of_squares(const T*, std::int64_t, double*, void*, cudaStream_t); \
    template void find_non_finite(const T*, std::int64_t, std::int64_t*, cudaStream_t);
OOMB_INSTANTIATE(double)
OOMB_INSTANTIATE(float)
OOMB_INSTANTIATE(BFloat16)
template void adamw_step(const AdamWStep<BFloat16, BFloat16>&, cudaStream_t);
#undef OOMB_INSTANTIATE

}  // namespace oomb::kernels::cuda
