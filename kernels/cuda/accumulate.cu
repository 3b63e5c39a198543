#include "kernels/cuda/accumulate.hpp"

#include "kernels/cuda/element.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 256;

template <class T, int N>
__global__ void __launch_bounds__(kBlock) accumulate_kernel(const T* part, Accumulator<T>* sum, std::int64_t count) {
    const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * N;
    if (at < count) {
        const auto addend = load_pack<N>(part + at);
        auto total = load_pack<N>(sum + at);
        for (int j = 0; j < N; ++j) {
            total.e[j] += widen(addend.e[j]);
        }
        store_pack(sum + at, total);
    }
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    add_bias_kernel(T* rows, const T* bias, std::int64_t elements, std::int64_t width) {
    const std::int64_t at = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
    if (at < elements) {
        rows[at] = narrow<T>(widen(rows[at]) + widen(bias[at % width]));
    }
}

__device__ std::uint64_t clock_nanoseconds() {
    std::uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void delay_kernel(std::uint64_t nanoseconds) {
    const std::uint64_t end = clock_nanoseconds() + nanoseconds;
    while (clock_nanoseconds() < end) {
        __nanosleep(200);
    }
}

}  // namespace

template <class T>
void accumulate(const T* part, Accumulator<T>* sum, std::int64_t count, cudaStream_t stream) {
    if (count == 0) {
        return;
    }
    constexpr int kPack = kPackSize<Accumulator<T>>;
    if (count % kPack == 0 && aligned_for_packs(part, sum)) {
        accumulate_kernel<T, kPack><<<blocks_for(count, kBlock * kPack), kBlock, 0, stream>>>(part, sum, count);
    } else {
        accumulate_kernel<T, 1><<<blocks_for(count, kBlock), kBlock, 0, stream>>>(part, sum, count);
    }
    check_launch("accumulate");
}

template <class T>
void add_bias(T* rows, const T* bias, std::int64_t count, std::int64_t width, cudaStream_t stream) {
    if (count * width == 0) {
        return;
    }
    add_bias_kernel<T><<<blocks_for(count * width, kBlock), kBlock, 0, stream>>>(rows, bias, count * width, width);
    check_launch("add_bias");
}

void delay(std::int64_t nanoseconds, cudaStream_t stream) {
    delay_kernel<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(nanoseconds));
    check_launch("delay");
}

template void accumulate(const double*, double*, std::int64_t, cudaStream_t);
template void accumulate(const float*, float*, std::int64_t, cudaStream_t);
template void accumulate(const BFloat16*, float*, std::int64_t, cudaStream_t);
template void add_bias(double*, const double*, std::int64_t, std::int64_t, cudaStream_t);
template void add_bias(float*, const float*, std::int64_t, std::int64_t, cudaStream_t);
template void add_bias(BFloat16*, const BFloat16*, std::int64_t, std::int64_t, cudaStream_t);

}  // namespace oomb::kernels::cuda
