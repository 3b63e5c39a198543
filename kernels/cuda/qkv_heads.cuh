#pragma once
// How a row of heads lies over the threads of a block, and what a thread does with its part of a head.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/pages.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/sines.cuh"
#include "kernels/qkv.hpp"

namespace oomb::kernels::cuda {

constexpr std::int64_t kMostQkvHeadDim = 512;
// A thread has packs 0, 2, ... of a head's first half and, as 1, 3, ..., those half a head later: what RoPE mixes.
// Two packs of 16 bytes, or up to 16 elements of heads that do not come in packs.
template <int N>
constexpr int kPacks = N == 1 ? 16 : 2;
template <int N>
constexpr int kMostThreads = N == 1 ? 256 : 512;

// `lanes` neighbouring threads, a power of two up to a warp, have a head; a block has `heads` of them, or fewer in the
// last of its row's `slices`.
struct Spread {
    int lanes;
    int heads;
    int threads;
    int slices;
};

template <int N>
Spread spread_of(std::int64_t heads, std::int64_t head_dim) {
    const std::int64_t packs = std::max<std::int64_t>(1, (head_dim / 2 + N - 1) / N);
    const std::int64_t lanes =
        std::min<std::int64_t>(kWarp, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(packs))));
    const std::int64_t most = kMostThreads<N> / lanes;
    const std::int64_t slices = (heads + most - 1) / most;
    const std::int64_t own = (heads + slices - 1) / slices;
    const std::int64_t threads = (own * lanes + kWarp - 1) / kWarp * kWarp;
    return {int(lanes), int(own), int(threads), int(slices)};
}

enum class Part { kQuery, kKey, kValue };

template <class E, int N>
struct Share {
    Pack<E, N> packs[kPacks<N>];
};

// The head of a thread and its columns of it.
template <int N>
struct Place {
    int head;   // in a row of heads
    int index;  // among those of its part
    Part part;
    bool active;  // false: the thread has no head, and takes part in sums with zeros
    int lane, lanes, half;

    template <class Args>
    __device__ Place(const Args& args, const Spread& spread, int first_head, int end_head)
        : lane(static_cast<int>(threadIdx.x) % spread.lanes), lanes(spread.lanes), half(int(args.head_dim / 2)) {
        const int in_block = static_cast<int>(threadIdx.x) / lanes;
        head = first_head + static_cast<int>(blockIdx.y) * spread.heads + in_block;
        active = in_block < spread.heads && head < end_head;
        const int queries = int(args.query_heads), keys_end = queries + int(args.kv_heads);
        part = head < queries ? Part::kQuery : head < keys_end ? Part::kKey : Part::kValue;
        index = head - (part == Part::kQuery ? 0 : part == Part::kKey ? queries : keys_end);
    }
    __device__ bool has(int pack) const { return active && (lane + pack / 2 * lanes) * N < half; }
    __device__ int column(int pack) const { return (lane + pack / 2 * lanes) * N + pack % 2 * half; }

    // The one of three operands that belongs to this head.
    template <class P>
    __device__ P* choose(P* query, P* key, P* value) const {
        return part == Part::kQuery ? query : part == Part::kKey ? key : value;
    }
    // Zeros where the thread has no columns, or all of them for null.
    template <class E>
    __device__ Share<E, N> read(const E* from) const {
        Share<E, N> share{};
        for (int p = 0; p < kPacks<N>; ++p) {
            if (from != nullptr && has(p)) {
                share.packs[p] = load_wide<N>(from + column(p));
            }
        }
        return share;
    }
    template <class T>
    __device__ void write(T* to, const Share<Accumulator<T>, N>& share) const {
        for (int p = 0; p < kPacks<N>; ++p) {
            if (has(p)) {
                Pack<T, N> pack;
                for (int j = 0; j < N; ++j) {
                    pack.e[j] = narrow<T>(share.packs[p].e[j]);
                }
                store_wide(to + column(p), pack);
            }
        }
    }
    // Over the head's threads; the whole warp calls.
    template <class A>
    __device__ A sum(A value) const {
        for (int distance = lanes / 2; distance > 0; distance /= 2) {
            value += exchange(value, distance);
        }
        return value;
    }
    template <class A>
    __device__ void rotate(Share<A, N>& x, const SineTable<A>& table, int row) const {
        for (int p = 0; p < kPacks<N>; p += 2) {
            if (has(p)) {
                const auto sine = load_wide<N>(table.sines + row * half + column(p));
                const auto cosine = load_wide<N>(table.cosines + row * half + column(p));
                for (int j = 0; j < N; ++j) {
                    const A low = x.packs[p].e[j];
                    const A high = x.packs[p + 1].e[j];
                    x.packs[p].e[j] = low * cosine.e[j] - high * sine.e[j];
                    x.packs[p + 1].e[j] = high * cosine.e[j] + low * sine.e[j];
                }
            }
        }
    }
};

}  // namespace oomb::kernels::cuda
