#include "kernels/cuda/page_selection.hpp"

#include <type_traits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {
namespace {

constexpr int kMeansBlock = 256;

// A thread takes a column of a page: rows in ascending order, as on the CPU.
template <class T>
__global__ void __launch_bounds__(kMeansBlock) means_kernel(const PageMeans<T> args) {
    using A = Accumulator<T>;
    const auto& kv = args.kv;
    const std::int64_t width = kv.kv_heads * kv.head_dim;
    const std::int64_t at = std::int64_t{blockIdx.x} * kMeansBlock + threadIdx.x;
    if (at >= kv.tokens / kv.page_tokens * width) {
        return;
    }
    const std::int64_t page = at / width;
    const T* column = kv.k_slab + kv.frames[page] * kv.page_tokens * width + (at - page * width);
    A sum = 0;
#pragma unroll 8
    for (std::int64_t row = 0; row < kv.page_tokens; ++row) {
        sum += widen(column[row * width]);
    }
    args.means[at] = narrow<T>(sum / A(kv.page_tokens));
}

// A block takes a row of scores, or all lists.
constexpr int kBlock = 1024;
constexpr int kWarps = kBlock / kWarp;

template <class A>
using BitsOf = std::conditional_t<std::is_same_v<A, double>, std::uint64_t, std::uint32_t>;

// Orders as scores do: greater scores have greater keys, NaN has the least; -0 is 0.
template <class A>
__device__ BitsOf<A> key_of(A score) {
    using Bits = BitsOf<A>;
    if (isnan(score)) {
        return 0;
    }
    Bits bits = 0;
    if (score != A(0)) {
        if constexpr (std::is_same_v<A, double>) {
            bits = static_cast<Bits>(__double_as_longlong(score));
        } else {
            bits = __float_as_uint(score);
        }
    }
    constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// Digits of eight bits of the keys that begin with `prefix`, counted from the highest on down, find the key of rank
// `count`: all keys above it are selected, and of those that equal it the first `equals`.
template <class Bits>
struct Threshold {
    Bits key;
    std::int64_t equals;
};

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;

template <class A>
__device__ Threshold<BitsOf<A>> find_threshold(const A* scores, std::int64_t pages, std::int64_t count) {
    using Bits = BitsOf<A>;
    __shared__ int histogram[kDigits];
    __shared__ int found_digit, found_above;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    Bits prefix = 0, mask = 0;
    std::int64_t remaining = count;
    for (int shift = 8 * static_cast<int>(sizeof(Bits)) - kDigitBits; shift >= 0; shift -= kDigitBits) {
        if (threadIdx.x < kDigits) {
            histogram[threadIdx.x] = 0;
        }
        __syncthreads();
        for (std::int64_t first = 0; first < pages; first += kBlock) {
            const std::int64_t page = first + threadIdx.x;
            const Bits key = page < pages ? key_of(scores[page]) : Bits{0};
            const bool counts = page < pages && (key & mask) == prefix;
            const int digit = counts ? static_cast<int>(key >> shift & Bits{kDigits - 1}) : kDigits;
            const unsigned alike = __match_any_sync(kWholeWarp, digit);  // most scores begin alike
            if (counts && lane == __ffs(static_cast<int>(alike)) - 1) {
                atomicAdd(&histogram[digit], __popc(alike));
            }
        }
        __syncthreads();
        if (threadIdx.x < kWarp) {
            constexpr int kPerLane = kDigits / kWarp;
            int own = 0;
            for (int i = 0; i < kPerLane; ++i) {
                own += histogram[lane * kPerLane + i];
            }
            int from_here = own;  // keys of this lane's digits and all above
            for (int distance = 1; distance < kWarp; distance *= 2) {
                const int other = __shfl_down_sync(kWholeWarp, from_here, distance);
                from_here += lane + distance < kWarp ? other : 0;
            }
            int above = from_here - own;
            for (int i = kPerLane - 1; i >= 0; --i) {
                const int here = histogram[lane * kPerLane + i];
                if (above < remaining && above + here >= remaining) {
                    found_digit = lane * kPerLane + i;
                    found_above = above;
                }
                above += here;
            }
        }
        __syncthreads();
        prefix |= static_cast<Bits>(found_digit) << shift;
        mask |= Bits{kDigits - 1} << shift;
        remaining -= found_above;
    }
    return {prefix, remaining};
}

// Sums over the threads before this one, and over all, of numbers whose sum fits. All threads of the block call;
// `sums` is not to be used again before the threads have met.
__device__ int sum_before(int own, int (&sums)[kWarps], int& total) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    int up_to_here = own;
    for (int distance = 1; distance < kWarp; distance *= 2) {
        const int other = __shfl_up_sync(kWholeWarp, up_to_here, distance);
        up_to_here += lane >= distance ? other : 0;
    }
    if (lane == kWarp - 1) {
        sums[warp] = up_to_here;
    }
    __syncthreads();
    int before = up_to_here - own;
    total = 0;
    for (int i = 0; i < kWarps; ++i) {
        before += i < warp ? sums[i] : 0;
        total += sums[i];
    }
    return before;
}

template <class A>
__global__ void __launch_bounds__(kBlock) select_kernel(const SelectPages<A> args) {
    const A* scores = args.scores + blockIdx.x * args.pages;
    std::int32_t* list = args.lists + blockIdx.x * args.count;
    const auto threshold = find_threshold(scores, args.pages, args.count);
    __shared__ int sums[2][kWarps];
    std::int64_t above = 0, equal = 0;  // pages so far
    int turn = 0;
    for (std::int64_t first = 0; first < args.pages; first += kBlock, turn ^= 1) {
        const std::int64_t page = first + threadIdx.x;
        const auto key = page < args.pages ? key_of(scores[page]) : BitsOf<A>{0};
        const bool is_above = page < args.pages && key > threshold.key;
        const bool is_equal = page < args.pages && key == threshold.key;
        constexpr int kEqual = 1 << 16;  // both counts in one number
        int total = 0;
        const int before = sum_before((is_above ? 1 : 0) + (is_equal ? kEqual : 0), sums[turn], total);
        const std::int64_t above_before = above + before % kEqual, equal_before = equal + before / kEqual;
        if (is_above || (is_equal && equal_before < threshold.equals)) {
            list[above_before + min(equal_before, threshold.equals)] = static_cast<std::int32_t>(page);
        }
        above += total % kEqual;
        equal += total / kEqual;
    }
}

// Whether an ascending list has the page.
__device__ bool names(const std::int32_t* list, std::int64_t count, std::int64_t page) {
    std::int64_t begin = 0, end = count;
    while (begin < end) {
        const std::int64_t middle = (begin + end) / 2;
        if (list[middle] < page) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin < count && list[begin] == page;
}

// A thread takes a page.
__global__ void __launch_bounds__(kBlock) invert_kernel(const ListInversion args) {
    __shared__ int sums[2][kWarps];
    std::int32_t offset = 0;
    int turn = 0;
    for (std::int64_t first = 0; first < args.pages; first += kBlock, turn ^= 1) {
        const std::int64_t page = first + threadIdx.x;
        int own = 0, total = 0;
        for (std::int64_t row = 0; page < args.pages && row < args.rows; ++row) {
            own += names(args.lists + row * args.count, args.count, page) ? 1 : 0;
        }
        std::int32_t place = offset + sum_before(own, sums[turn], total);
        if (page < args.pages) {
            args.offsets[page] = place;
        }
        for (std::int64_t row = 0; page < args.pages && row < args.rows; ++row) {
            if (names(args.lists + row * args.count, args.count, page)) {
                args.readers[place++] = static_cast<std::int32_t>(row);
            }
        }
        offset += total;
    }
    if (threadIdx.x == 0) {
        args.offsets[args.pages] = offset;
    }
}

}  // namespace

template <class T>
void page_means(const PageMeans<T>& args, cudaStream_t stream) {
    const auto& kv = args.kv;
    require_operand(kv.page_tokens > 0 && kv.tokens % kv.page_tokens == 0, "page_means", "tokens", kv.tokens,
                    "whole pages");
    if (kv.tokens == 0) {
        return;
    }
    const std::int64_t elements = kv.tokens / kv.page_tokens * kv.kv_heads * kv.head_dim;
    means_kernel<T><<<blocks_for(elements, kMeansBlock), kMeansBlock, 0, stream>>>(args);
    check_launch("page_means");
}

template <class A>
void select_pages(const SelectPages<A>& args, cudaStream_t stream) {
    require_operand(args.count >= 0 && args.count <= args.pages, "select_pages", "count", args.count,
                    "0 to the number of pages");
    if (args.rows == 0 || args.count == 0) {
        return;
    }
    select_kernel<A><<<blocks_for(args.rows, 1), kBlock, 0, stream>>>(args);
    check_launch("select_pages");
}

void invert_lists(const ListInversion& args, cudaStream_t stream) {
    invert_kernel<<<1, kBlock, 0, stream>>>(args);
    check_launch("invert_lists");
}

template void page_means(const PageMeans<double>&, cudaStream_t);
template void page_means(const PageMeans<float>&, cudaStream_t);
template void page_means(const PageMeans<BFloat16>&, cudaStream_t);
template void select_pages(const SelectPages<double>&, cudaStream_t);
template void select_pages(const SelectPages<float>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
