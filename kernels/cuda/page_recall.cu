// How much attention pages get, and how much of it the best ones: see kernels/page_selection.hpp.

#include <algorithm>
#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/page_selection.hpp"
#include "kernels/cuda/pages.cuh"
#include "kernels/cuda/reduce.cuh"

namespace oomb::kernels::cuda {
namespace {

// A block takes (query page, page) and computes products of kTile queries and as many keys at a time, of which a thread
// has kEach x kEach: queries thread / kSide + i * kSide, keys thread % kSide + j * kSide.
constexpr int kMassBlock = 256;
constexpr int kSide = 16;
constexpr int kEach = 4;
constexpr int kTile = kSide * kEach;
constexpr int kDepth = 16;  // of head_dim, in shared memory at a time

template <class A>
struct MassTiles {
    A q[kTile][kDepth + 1];
    A k[kTile][kDepth + 1];
};

// Numbers [first, first + kDepth) of up to kTile rows; zeros beyond `rows` and head_dim. row(i) is where row i begins.
template <class A, class Row>
__device__ void load_tile(A (&tile)[kTile][kDepth + 1], std::int64_t rows, std::int64_t first, std::int64_t head_dim,
                          const Row& row) {
    for (int at = static_cast<int>(threadIdx.x); at < kTile * kDepth; at += kMassBlock) {
        const int i = at / kDepth, d = at % kDepth;
        tile[i][d] = i < rows && first + d < head_dim ? widen(row(i)[first + d]) : A(0);
    }
}

// The mass of this thread's share of a tile of queries [query, query + queries) and keys [key, key + keys).
template <class T>
__device__ Accumulator<T> mass_of_tile(const PageMass<T>& args, std::int64_t query, std::int64_t queries,
                                       std::int64_t key, std::int64_t keys, std::int64_t head,
                                       MassTiles<Accumulator<T>>& tiles) {
    using A = Accumulator<T>;
    const auto& kv = args.kv;
    const std::int64_t kv_head = head / (args.query_heads / kv.kv_heads);
    const int row = static_cast<int>(threadIdx.x) / kSide, column = static_cast<int>(threadIdx.x) % kSide;
    A products[kEach][kEach] = {};
    for (std::int64_t first = 0; first < kv.head_dim; first += kDepth) {
        __syncthreads();  // the tile before has been read
        load_tile(tiles.q, queries, first, kv.head_dim,
                  [&](int i) { return args.q + ((query + i) * args.query_heads + head) * kv.head_dim; });
        load_tile(tiles.k, keys, first, kv.head_dim,
                  [&](int i) { return kv.k_slab + row_offset(kv, key + i, kv_head); });
        __syncthreads();
        for (int d = 0; d < kDepth; ++d) {
            for (int i = 0; i < kEach; ++i) {
                for (int j = 0; j < kEach; ++j) {
                    products[i][j] += tiles.q[row + i * kSide][d] * tiles.k[column + j * kSide][d];
                }
            }
        }
    }
    A sum = 0;
    for (int i = 0; i < kEach; ++i) {
        if (row + i * kSide >= queries) {
            continue;
        }
        const A lse = args.lse[(query + row + i * kSide) * args.query_heads + head];
        for (int j = 0; j < kEach; ++j) {
            sum += column + j * kSide < keys ? exp(A(args.scale) * products[i][j] - lse) : A(0);
        }
    }
    return sum;
}

template <class T>
__global__ void __launch_bounds__(kMassBlock) mass_kernel(const PageMass<T> args, std::int64_t window_pages) {
    using A = Accumulator<T>;
    __shared__ MassTiles<A> tiles;
    const std::int64_t page_tokens = args.kv.page_tokens;
    const std::int64_t row = blockIdx.x / window_pages, page = blockIdx.x % window_pages;
    const std::int64_t begin = row * page_tokens;
    const std::int64_t end = begin + page_tokens < args.tokens ? begin + page_tokens : args.tokens;
    A sum = 0;
    for (std::int64_t head = 0; head < args.query_heads; ++head) {
        for (std::int64_t query = begin; query < end; query += kTile) {
            for (std::int64_t key = 0; key < page_tokens; key += kTile) {
                const std::int64_t queries = end - query < kTile ? end - query : kTile;
                const std::int64_t keys = page_tokens - key < kTile ? page_tokens - key : kTile;
                sum += mass_of_tile(args, query, queries, page * page_tokens + key, keys, head, tiles);
            }
        }
    }
    sum = sum_over<kMassBlock>(sum);
    if (threadIdx.x == 0) {
        args.mass[row * args.pages + page] = sum;
    }
}

constexpr int kRecallBlock = 1024;

template <class A>
__device__ A value_of(A value) {
    return isnan(value) ? -std::numeric_limits<A>::infinity() : value;
}

// How many pages come before `page`: those of higher values, of equals the lower ones.
template <class A>
__device__ std::int64_t rank_of(const A* values, std::int64_t pages, std::int64_t page) {
    const A own = value_of(values[page]);
    std::int64_t before = 0;
    for (std::int64_t other = 0; other < pages; ++other) {
        const A value = value_of(values[other]);
        before += value > own || (value == own && other < page) ? 1 : 0;
    }
    return before;
}

// What the pages of this thread add, over all rows.
struct Covered {
    double history = 0, by_score = 0, by_mass = 0, by_recency = 0;
};

// A thread takes a page: `row` is that of scores and mass.
template <class A>
__device__ void add_page(const PageRecall<A>& args, std::int64_t row, std::int64_t page, std::int64_t budget,
                         Covered& covered, unsigned long long (&distances)[kDistanceBins]) {
    const A* mass = args.mass + row * args.pages;
    const auto own = static_cast<double>(mass[page]);
    covered.history += own;
    covered.by_recency += page >= args.pages - budget ? own : 0.0;
    covered.by_mass += rank_of(mass, args.pages, page) < budget ? own : 0.0;
    if (rank_of(args.scores + row * args.pages, args.pages, page) < budget) {
        covered.by_score += own;
        const int bin = 63 - __clzll(args.pages - page);
        atomicAdd(&distances[bin < kDistanceBins ? bin : kDistanceBins - 1], 1ULL);
    }
}

// Numbers of pages, in the kernel's parameters.
struct Budgets {
    std::int64_t pages[kMostRecallBudgets];
};

// A block takes a budget and goes over all rows, so that each sum has one order.
template <class A>
__global__ void __launch_bounds__(kRecallBlock) recall_kernel(const PageRecall<A> args, const Budgets budgets) {
    __shared__ unsigned long long distances[kDistanceBins];
    const std::int64_t budget = budgets.pages[blockIdx.x];
    const std::int64_t rows = (args.tokens + args.page_tokens - 1) / args.page_tokens;
    if (threadIdx.x < kDistanceBins) {
        distances[threadIdx.x] = 0;
    }
    __syncthreads();
    Covered covered;
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t page = threadIdx.x; page < args.pages; page += kRecallBlock) {
            add_page(args, row, page, budget, covered, distances);
        }
    }
    const auto history = sum_over<kRecallBlock>(covered.history), by_score = sum_over<kRecallBlock>(covered.by_score);
    const auto by_mass = sum_over<kRecallBlock>(covered.by_mass),
               by_recency = sum_over<kRecallBlock>(covered.by_recency);
    if (threadIdx.x == 0) {
        RecallSums& sums = args.sums[blockIdx.x];
        sums.query_pages += static_cast<double>(rows);
        sums.all_mass += static_cast<double>(args.tokens * args.query_heads);
        sums.history_mass += history;
        sums.by_score += by_score;
        sums.by_mass += by_mass;
        sums.by_recency += by_recency;
        sums.by_chance += history * static_cast<double>(budget) / static_cast<double>(args.pages);
        for (int bin = 0; bin < kDistanceBins; ++bin) {
            sums.distances[bin] += static_cast<double>(distances[bin]);
        }
    }
}

}  // namespace

template <class T>
void page_mass(const PageMass<T>& args, cudaStream_t stream) {
    constexpr const char* kName = "page_mass";
    const auto& kv = args.kv;
    require_operand(kv.kv_heads > 0 && args.query_heads % kv.kv_heads == 0, kName, "query_heads", args.query_heads,
                    "a multiple of the KV heads");
    require_operand(kv.page_tokens > 0 && kv.tokens % kv.page_tokens == 0, kName, "tokens of the window", kv.tokens,
                    "whole pages");
    if (args.tokens == 0 || kv.tokens == 0) {
        return;
    }
    const std::int64_t query_pages = (args.tokens + kv.page_tokens - 1) / kv.page_tokens;
    const std::int64_t window_pages = kv.tokens / kv.page_tokens;
    mass_kernel<T><<<blocks_for(query_pages * window_pages, 1), kMassBlock, 0, stream>>>(args, window_pages);
    check_launch(kName);
}

// Budgets ascend, so those that count come first.
template <class A>
void page_recall(const PageRecall<A>& args, cudaStream_t stream) {
    constexpr const char* kName = "page_recall";
    require_operand(args.count <= kMostRecallBudgets, kName, "count", args.count, "16 at most");
    require_operand(args.page_tokens > 0, kName, "page_tokens", args.page_tokens, "positive");
    Budgets budgets = {};
    std::int64_t counted = 0;
    while (counted < args.count && args.budgets[counted] < args.pages) {
        budgets.pages[counted] = args.budgets[counted];
        ++counted;
    }
    if (args.tokens == 0 || counted == 0) {
        return;
    }
    recall_kernel<A><<<blocks_for(counted, 1), kRecallBlock, 0, stream>>>(args, budgets);
    check_launch(kName);
}

template void page_mass(const PageMass<double>&, cudaStream_t);
template void page_mass(const PageMass<float>&, cudaStream_t);
template void page_mass(const PageMass<BFloat16>&, cudaStream_t);
template void page_recall(const PageRecall<double>&, cudaStream_t);
template void page_recall(const PageRecall<float>&, cudaStream_t);

}  // namespace oomb::kernels::cuda
