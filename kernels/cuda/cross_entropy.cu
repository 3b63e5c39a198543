#include <limits>

#include "kernels/cuda/cross_entropy.hpp"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kBlock = 1024;  // takes a row
constexpr int kSumBlock = 256;

// exp(x) for x <= 0. The float form is 2^(x log2 e) by the hardware, 0 below 2^-126: the product's rounding makes it
// off by |x| 2^-24 relative, which is at most e^-1 2^-24 of the largest weight, 1.
__device__ inline float weight_of(float x) {
    float weight;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(weight) : "f"(x * 1.4426950408889634F));
    return weight;
}
__device__ inline double weight_of(double x) {
    return exp(x);
}

// Softmax over what one thread has read: `sum` of exp(logit - largest), NaN as soon as a logit is not finite.
template <class A>
struct Online {
    A largest = -std::numeric_limits<A>::infinity();
    A sum = 0;

    template <class T, int N>
    __device__ void add(const Pack<T, N>& pack) {
        A grown = largest;
        for (int j = 0; j < N; ++j) {
            grown = Larger{}(grown, widen(pack.e[j]));
        }
        if (grown > largest) {
            sum *= weight_of(largest - grown);
            largest = grown;
        }
        for (int j = 0; j < N; ++j) {
            const A logit = widen(pack.e[j]);
            sum += weight_of(logit - largest) + 0 * logit;
        }
    }
};

// The packs of a thread from column `first` of a row on, all under way before the first is used. What lies outside the
// row is not touched.
template <class T, int N>
struct Batch {
    static constexpr int kPacks = 4;
    static constexpr std::int64_t kColumns = std::int64_t{kPacks} * kBlock * N;  // of the whole block
    Pack<T, N> packs[kPacks];

    static __device__ std::int64_t column(std::int64_t first, int u) {
        return first + (std::int64_t{u} * kBlock + threadIdx.x) * N;
    }
    __device__ Batch(const T* logits, std::int64_t vocab, std::int64_t first) {
        for (int u = 0; u < kPacks; ++u) {
            if (column(first, u) < vocab) {
                packs[u] = load_pack<N>(logits + column(first, u));
            }
        }
    }
};

template <class T, int N>
__device__ Online<Accumulator<T>> read_row(const T* logits, std::int64_t vocab) {
    Online<Accumulator<T>> online;
    for (std::int64_t first = 0; first < vocab; first += Batch<T, N>::kColumns) {
        const Batch<T, N> batch(logits, vocab, first);
        for (int u = 0; u < Batch<T, N>::kPacks; ++u) {
            if (batch.column(first, u) < vocab) {
                online.add(batch.packs[u]);
            }
        }
    }
    return online;
}

// From the end to the start: what was read last is in L1 still.
template <class T, int N>
__device__ void write_gradient(T* logits, std::int64_t vocab, std::int64_t target, Accumulator<T> largest,
                               Accumulator<T> factor, Accumulator<T> scale) {
    constexpr std::int64_t kColumns = Batch<T, N>::kColumns;
    for (std::int64_t first = (vocab - 1) / kColumns * kColumns; first >= 0; first -= kColumns) {
        Batch<T, N> batch(logits, vocab, first);
        for (int u = 0; u < Batch<T, N>::kPacks; ++u) {
            const std::int64_t i = batch.column(first, u);
            if (i < vocab) {
                const int hit = target >= i && target < i + N ? static_cast<int>(target - i) : -1;
                for (int j = 0; j < N; ++j) {
                    const auto weight = factor * weight_of(widen(batch.packs[u].e[j]) - largest);
                    batch.packs[u].e[j] = narrow<T>(j == hit ? weight - scale : weight);
                }
                store_pack(logits + i, batch.packs[u]);
            }
        }
    }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlock, 1) row_kernel(const CrossEntropyTile<T> args, double* losses) {
    using A = Accumulator<T>;
    T* logits = args.logits + blockIdx.x * args.vocab;
    const std::int32_t target = args.targets[blockIdx.x];
    if (target == kIgnoredTarget) {
        for (std::int64_t i = threadIdx.x * N; i < args.vocab && !args.losses_only; i += kBlock * N) {
            store_pack(logits + i, Pack<T, N>{});
        }
        if (threadIdx.x == 0) {
            losses[blockIdx.x] = 0;
        }
        return;
    }
    const bool known = target >= 0 && target < args.vocab;
    const A target_logit = known ? widen(logits[target]) : std::numeric_limits<A>::quiet_NaN();
    const Online<A> online = read_row<T, N>(logits, args.vocab);
    const A largest = combine_over<kBlock>(online.largest, -std::numeric_limits<A>::infinity(), Larger{});
    const double sum = sum_over<kBlock>(static_cast<double>(online.sum * weight_of(online.largest - largest)));
    if (!args.losses_only) {
        write_gradient<T, N>(logits, args.vocab, target, largest, static_cast<A>(args.scale / sum), A(args.scale));
    }
    if (threadIdx.x == 0) {
        losses[blockIdx.x] = log(sum) - static_cast<double>(target_logit - largest);
    }
}

template <class T>
__global__ void __launch_bounds__(kSumBlock)
    sum_kernel(const CrossEntropyTile<T> args, const double* losses, CrossEntropySum* total) {
    double loss = 0;
    std::int64_t valid_targets = 0;
    for (std::int64_t row = threadIdx.x; row < args.rows; row += kSumBlock) {
        loss += losses[row];
        valid_targets += args.targets[row] == kIgnoredTarget ? 0 : 1;
        if (args.row_losses != nullptr) {
            args.row_losses[row] = static_cast<Accumulator<T>>(losses[row]);
        }
    }
    loss = sum_over<kSumBlock>(loss);
    valid_targets = sum_over<kSumBlock>(valid_targets);
    if (threadIdx.x == 0) {
        total->loss += loss;
        total->valid_targets += valid_targets;
    }
}

}  // namespace

std::size_t cross_entropy_workspace_bytes(std::int64_t rows) {
    return static_cast<std::size_t>(rows) * sizeof(double);
}

template <class T>
void cross_entropy(const CrossEntropyTile<T>& args, CrossEntropySum* sum, void* workspace, cudaStream_t stream) {
    if (args.rows == 0) {
        return;
    }
    constexpr int kPack = kPackSize<T>;
    auto* losses = static_cast<double*>(workspace);
    if (args.vocab % kPack == 0 && aligned_for_packs(args.logits)) {
        row_kernel<T, kPack><<<blocks_for(args.rows, 1), kBlock, 0, stream>>>(args, losses);
    } else {
        row_kernel<T, 1><<<blocks_for(args.rows, 1), kBlock, 0, stream>>>(args, losses);
    }
    check_launch("cross_entropy");
    sum_kernel<<<1, kSumBlock, 0, stream>>>(args, losses, sum);
    check_launch("cross_entropy, sum of rows");
}

template void cross_entropy(const CrossEntropyTile<double>&, CrossEntropySum*, void*, cudaStream_t);
template void cross_entropy(const CrossEntropyTile<float>&, CrossEntropySum*, void*, cudaStream_t);
template void cross_entropy(const CrossEntropyTile<BFloat16>&, CrossEntropySum*, void*, cudaStream_t);

}  // namespace oomb::kernels::cuda
