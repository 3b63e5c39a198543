#pragma once
// How a row of heads lies over the threads of a block, and what a thread does with its part of a head.

#include <cuda_pipeline.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/pages.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/sines.cuh"
#include "kernels/qkv.hpp"

namespace oomb::kernels::cuda {

constexpr std::int64_t kMostQkvHeadDim = 512;
constexpr int kTile = 4;  // rows of a table of sines
// A thread has packs 0, 2, ... of a head's first half and, as 1, 3, ..., those half a head later: what RoPE mixes.
// Two packs of N elements, or up to 16 elements of heads that do not come in packs.
template <int N>
constexpr int kPacks = N == 1 ? 16 : 2;
template <int N>
constexpr int kMostThreads = N == 1 ? 256 : 640;

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

// The next rows of a thread, on their way through shared memory that no other thread reads: they hold no registers and
// need no barrier. Elements that do not come in packs are read when they are taken.
template <class E, int N>
class Ahead {
    static constexpr int kPackBytes = N * static_cast<int>(sizeof(E));
    static constexpr int kUnitBytes = kPackBytes < 16 ? kPackBytes : 16;
    static constexpr int kUnits = kPackBytes / kUnitBytes;  // of a pack
    using Unit = Pack<E, kUnitBytes / static_cast<int>(sizeof(E))>;

  public:
    static constexpr int kBytes = N == 1 ? 0 : kPacks<N> * kPackBytes;  // of a thread and a row

    // Shared memory of kBytes for every thread of the block and row under way.
    __device__ explicit Ahead(void* shared) : mine_(static_cast<Unit*>(shared) + threadIdx.x) {}

    // Begins to read into a slot. __pipeline_commit() must follow.
    __device__ void start(const Place<N>& place, int slot, const E* from) const {
        if constexpr (N > 1) {
            for (int i = 0; i < kPacks<N> * kUnits; ++i) {
                if (place.has(i / kUnits)) {
                    const int column = place.column(i / kUnits) + i % kUnits * (kUnitBytes / int(sizeof(E)));
                    __pipeline_memcpy_async(at(slot, i), from + column, kUnitBytes);
                }
            }
        }
    }
    // What start() was asked to read, once __pipeline_wait_prior() says that it is there. `from` is called only for
    // elements that do not come in packs.
    template <class From>
    __device__ Share<E, N> take(const Place<N>& place, int slot, const From& from) const {
        if constexpr (N == 1) {
            return place.read(from());
        } else {
            Share<E, N> share{};
            for (int i = 0; i < kPacks<N> * kUnits; ++i) {
                if (place.has(i / kUnits)) {
                    const Unit unit = *at(slot, i);
                    for (int j = 0; j < N / kUnits; ++j) {
                        share.packs[i / kUnits].e[i % kUnits * (N / kUnits) + j] = unit.e[j];
                    }
                }
            }
            return share;
        }
    }

  private:
    __device__ Unit* at(int slot, int unit) const { return mine_ + (slot * kPacks<N> * kUnits + unit) * blockDim.x; }

    Unit* mine_;
};

template <class T, int N>
__device__ Share<Accumulator<T>, N> sum_of(const Share<T, N>& left, const Share<T, N>& right) {
    Share<Accumulator<T>, N> sum;
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            sum.packs[p].e[j] = widen(left.packs[p].e[j]) + widen(right.packs[p].e[j]);
        }
    }
    return sum;
}

// The head's columns of a parameter [heads, head_dim], or null.
template <class T, int N>
__device__ const T* own_bias(const Place<N>& place, const T* bias) {
    return bias == nullptr ? nullptr : bias + std::int64_t{place.index} * place.half * 2;
}

template <class A, int N>
__device__ A sum_of_squares(const Share<A, N>& x) {
    A squares = 0;
    for (int p = 0; p < kPacks<N>; ++p) {
        for (int j = 0; j < N; ++j) {
            squares += x.packs[p].e[j] * x.packs[p].e[j];
        }
    }
    return squares;
}

// Rows of a block, tile by tile: tiles b, b + blocks, ..., so that what blocks work on at one time lies together in
// memory.
struct OwnRows {
    int count;

    __device__ explicit OwnRows(std::int64_t rows) {
        const std::int64_t tiles = (rows + kTile - 1) / kTile;
        const std::int64_t own = (tiles - 1 - blockIdx.x) / gridDim.x + 1;
        const bool has_last = blockIdx.x + (own - 1) * gridDim.x == tiles - 1;
        count = static_cast<int>(own * kTile - (has_last ? tiles * kTile - rows : 0));
    }
    __device__ std::int64_t row(int i) const {
        return (blockIdx.x + std::int64_t{i / kTile} * gridDim.x) * kTile + i % kTile;
    }
};

// Sines of a block's rows. Of the two tables one is read while the other is filled.
template <class A>
struct Sines {
    A* start;  // [2, sines and cosines, kTile, half]
    int half;

    __device__ SineTable<A> table(int tile) const {
        A* sines = start + tile % 2 * 2 * kTile * half;
        return {sines, sines + kTile * half, half};
    }
    template <class Args>
    __device__ void fill(const Args& args, double direction, const OwnRows& rows, int tile) const {
        const int left = rows.count - tile * kTile;
        if (left > 0) {
            const std::int64_t first = args.first_position + rows.row(tile * kTile);
            table(tile).fill(args, direction, left < kTile ? left : kTile, [&](int r) { return first + r; });
        }
    }
};

template <class Args, class Pages>
void check_operands(const Args& args, const Pages& pages, const char* kernel) {
    require_operand(args.head_dim % 2 == 0 && args.head_dim <= kMostQkvHeadDim, kernel, "head_dim", args.head_dim,
                    "even and 512 at most");
    if (pages.tokens != 0) {
        require_operand(pages.tokens == args.rows, kernel, "tokens of pages", pages.tokens, "the number of rows");
        require_operand(pages.kv_heads == args.kv_heads, kernel, "K/V heads of pages", pages.kv_heads, "kv_heads");
        require_operand(pages.head_dim == args.head_dim, kernel, "head_dim of pages", pages.head_dim, "head_dim");
        require_operand(pages.first_token == args.first_position, kernel, "first token of pages", pages.first_token,
                        "first_position");
    }
}

template <int N>
constexpr bool comes_in_packs(std::int64_t head_dim) {
    return head_dim % (2 * N) == 0 && head_dim <= 2 * N * kWarp;
}

// Threads of a full block: of smaller ones there are more.
constexpr std::int64_t kFullBlock = 256;
constexpr std::int64_t kPlainSharedBytes = 48 * 1024;  // more needs an attribute

inline std::int64_t row_blocks(std::int64_t rows, const Spread& spread, std::int64_t most_full_blocks) {
    const std::int64_t most = most_full_blocks * std::max<std::int64_t>(1, kFullBlock / spread.threads);
    return std::min(most, (rows + kTile - 1) / kTile);
}

template <class Kernel>
void allow_shared_bytes(Kernel* kernel, std::int64_t bytes) {
    if (bytes > kPlainSharedBytes) {
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    }
}

}  // namespace oomb::kernels::cuda
