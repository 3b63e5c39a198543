// Attention of the CPU backend over one window: the window's pages side by side, then matrix products per query head
// and tile of queries. kernels/cpu/attention.hpp is the plain definition it must agree with, and is what computes bf16.

#include <ATen/ops/amax.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention.hpp"
#include "runtime/schedule/region_sizes.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/cpu/matrix.hpp"

namespace oomb::trainer {

using schedule::Access;
using schedule::AttentionCost;
using enum schedule::RegionName;

namespace {

// Parts of the attention scratch region; attention_scratch_bytes() is their sum.
template <class T>
struct Scratch {
    T *k, *v, *dk, *dv;     // [keys, kv_heads, head_dim]
    T *scores, *gradients;  // [query tile, keys]
    T *row_max, *row_sum;   // [query tile]

    Scratch(T* start, std::int64_t keys, std::int64_t kv_width, std::int64_t tile) {
        T** const parts[] = {&k, &v, &dk, &dv, &scores, &gradients, &row_max, &row_sum};
        const std::int64_t page = keys * kv_width, score = tile * keys;
        const std::int64_t sizes[] = {page, page, page, page, score, score, tile, tile};
        for (std::size_t i = 0; i < std::size(parts); ++i) {
            *parts[i] = start;
            start += sizes[i];
        }
    }
    static std::int64_t elements(std::int64_t keys, std::int64_t kv_width, std::int64_t tile) {
        return 4 * keys * kv_width + 2 * tile * keys + 2 * tile;
    }
};

// One query head's rows [first, first + rows) of a chunk against the keys they may see.
struct Tile {
    std::int64_t head = 0, kv_head = 0;
    std::int64_t first = 0, rows = 0;
    std::int64_t keys = 0;          // visible to the last row
    std::int64_t first_masked = 0;  // row r sees keys up to first_masked + r; all rows see all where that is >= keys
};

double scale_of(const AttentionCost& cost) {
    return 1.0 / std::sqrt(static_cast<double>(cost.head_dim));
}

template <class Visit>
void for_each_tile(const AttentionCost& cost, const Visit& visit) {
    const std::int64_t group = cost.query_heads / cost.kv_heads;
    for (std::int64_t head = 0; head < cost.query_heads; ++head) {
        for (std::int64_t first = 0; first < cost.queries; first += schedule::kCpuQueryTile) {
            const std::int64_t rows = std::min(schedule::kCpuQueryTile, cost.queries - first);
            const std::int64_t visible = cost.first_query + first - cost.first_key;  // beyond row 0's own position
            visit(Tile{head, head / group, first, rows, std::min(cost.keys, visible + rows), visible});
        }
    }
}

// Sets the scores of keys after each row's own position.
template <class T>
void mask_future(T* scores, const Tile& tile, T value) {
    for (std::int64_t row = 0; row < tile.rows; ++row) {
        const std::int64_t first = std::min(tile.keys, tile.first_masked + row + 1);
        std::fill(scores + row * tile.keys + first, scores + (row + 1) * tile.keys, value);
    }
}

template <class T>
at::Tensor head_of(T* data, std::int64_t rows, std::int64_t heads, std::int64_t head_dim, std::int64_t head) {
    return matrix(data + head * head_dim, rows, head_dim, heads * head_dim);
}

}  // namespace

template <class T>
void CpuBackend<T>::attention(const Issued& issued) {
    if constexpr (std::is_same_v<T, A>) {
        attend_by_library(issued);
    } else {
        attend_by_kernel(issued);
    }
}

template <class T>
void CpuBackend<T>::attention_backward(const Issued& issued) {
    if constexpr (std::is_same_v<T, A>) {
        backward_by_library(issued);
    } else {
        backward_by_kernel(issued);
    }
}

template <class T>
void CpuBackend<T>::attend_by_kernel(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const bool whole = issued.operation.id.part == 0;
    const std::int64_t elements = cost.queries * model_.query_width();
    A* o = memory_.template write<A>(issued, whole ? kOutputSum : kAttentionScratch, elements);
    kernels::cpu::attention_forward<T>(
        {.q = memory_.template read<T>(issued, kQuery, elements),
         .kv = page_view<const T>(issued, 0, cost.first_key, cost.keys),
         .o_part = o,
         .lse_part =
             memory_.template write<A>(issued, whole ? kLogSumExp : kLogSumExpPart, cost.queries * cost.query_heads),
         .tokens = cost.queries,
         .query_heads = cost.query_heads,
         .scale = scale_of(cost),
         .mask = {.first_query = cost.first_query}});
    if (!whole) {
        std::transform(o, o + elements, memory_.template write<T>(issued, kOutputPart, elements),
                       [](A value) { return T(value); });
    }
}

template <class T>
void CpuBackend<T>::backward_by_kernel(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t elements = cost.queries * model_.query_width(), sums = cost.queries * cost.query_heads;
    A* dq = memory_.template write<A>(issued, kQueryGradient, elements);
    if (issued.operation.id.part == 0) {
        std::fill_n(dq, elements, A{0});
    }
    kernels::cpu::attention_backward<T>({.q = memory_.template read<T>(issued, kQuery, elements),
                                         .d_o = memory_.template read<T>(issued, kOutputGradient, elements),
                                         .lse = memory_.template read<A>(issued, kLogSumExp, sums),
                                         .delta = memory_.template read<A>(issued, kDelta, sums),
                                         .kv = page_view<const T>(issued, 0, cost.first_key, cost.keys),
                                         .dq = dq,
                                         .d_kv = page_view<A>(issued, 1, cost.first_key, cost.keys),
                                         .first_touch = issued.grants[1].first_touch.data(),
                                         .tokens = cost.queries,
                                         .query_heads = cost.query_heads,
                                         .scale = scale_of(cost),
                                         .mask = {.first_query = cost.first_query}});
}

template <class T>
void CpuBackend<T>::attend_by_library(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const bool whole = issued.operation.id.part == 0;
    const std::int64_t width = model_.query_width(), dim = cost.head_dim, kv_width = model_.kv_width();
    const std::int64_t tile_rows = std::min(cost.queries, schedule::kCpuQueryTile);
    const T* q = memory_.template read<T>(issued, kQuery, cost.queries * width);
    T* out = memory_.template write<T>(issued, whole ? kOutputSum : kOutputPart, cost.queries * width);
    T* lse = memory_.template write<T>(issued, whole ? kLogSumExp : kLogSumExpPart, cost.queries * cost.query_heads);
    const Scratch<T> scratch(
        memory_.template write<T>(issued, kAttentionScratch, Scratch<T>::elements(cost.keys, kv_width, tile_rows)),
        cost.keys, kv_width, tile_rows);
    gather_window(issued, 0, scratch.k);
    gather_window(issued, 1, scratch.v);
    const double scale = scale_of(cost);

    for_each_tile(cost, [&](const Tile& tile) {
        const auto queries = head_of(q + tile.first * width, tile.rows, cost.query_heads, dim, tile.head);
        const auto keys = head_of(scratch.k, tile.keys, cost.kv_heads, dim, tile.kv_head);
        const auto values = head_of(scratch.v, tile.keys, cost.kv_heads, dim, tile.kv_head);
        auto scores = matrix(scratch.scores, tile.rows, tile.keys);
        auto row_max = matrix(scratch.row_max, tile.rows, 1);
        auto row_sum = matrix(scratch.row_sum, tile.rows, 1);
        at::mm_out(scores, queries, keys.t());
        scores.mul_(scale);
        mask_future(scratch.scores, tile, -std::numeric_limits<T>::infinity());
        at::amax_out(row_max, scores, {1}, true);
        scores.sub_(row_max).exp_();
        at::sum_out(row_sum, scores, {1}, true);
        auto output = head_of(out + tile.first * width, tile.rows, cost.query_heads, dim, tile.head);
        at::mm_out(output, scores, values);
        output.div_(row_sum);
        auto sums = matrix(lse + tile.first * cost.query_heads + tile.head, tile.rows, 1, cost.query_heads);
        at::log_out(sums, row_sum);
        sums.add_(row_max);
    });
}

// With p = exp(scale q.k - lse), ds = p (dO.v - delta): dq += scale ds k, dk += scale ds^T q, dv += p^T dO.
template <class T>
void CpuBackend<T>::backward_by_library(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t width = model_.query_width(), dim = cost.head_dim, kv_width = model_.kv_width();
    const std::int64_t heads = cost.query_heads;
    const std::int64_t tile_rows = std::min(cost.queries, schedule::kCpuQueryTile);
    const T* q = memory_.template read<T>(issued, kQuery, cost.queries * width);
    const T* output_gradient = memory_.template read<T>(issued, kOutputGradient, cost.queries * width);
    const T* lse = memory_.template read<T>(issued, kLogSumExp, cost.queries * heads);
    const T* delta = memory_.template read<T>(issued, kDelta, cost.queries * heads);
    T* query_gradient = memory_.template write<T>(issued, kQueryGradient, cost.queries * width);
    const Scratch<T> scratch(
        memory_.template write<T>(issued, kAttentionScratch, Scratch<T>::elements(cost.keys, kv_width, tile_rows)),
        cost.keys, kv_width, tile_rows);
    gather_window(issued, 0, scratch.k);
    gather_window(issued, 1, scratch.v);
    std::fill_n(scratch.dk, 2 * cost.keys * kv_width, T{0});
    if (issued.operation.id.part == 0) {
        std::fill_n(query_gradient, cost.queries * width, T{0});
    }
    const double scale = scale_of(cost);

    for_each_tile(cost, [&](const Tile& tile) {
        const auto queries = head_of(q + tile.first * width, tile.rows, heads, dim, tile.head);
        const auto d_out = head_of(output_gradient + tile.first * width, tile.rows, heads, dim, tile.head);
        const auto keys = head_of(scratch.k, tile.keys, cost.kv_heads, dim, tile.kv_head);
        const auto values = head_of(scratch.v, tile.keys, cost.kv_heads, dim, tile.kv_head);
        auto p = matrix(scratch.scores, tile.rows, tile.keys);
        auto ds = matrix(scratch.gradients, tile.rows, tile.keys);
        const std::int64_t row = tile.first * heads + tile.head;
        at::mm_out(p, queries, keys.t());
        p.mul_(scale).sub_(matrix(lse + row, tile.rows, 1, heads)).exp_();
        mask_future(scratch.scores, tile, T{0});
        at::mm_out(ds, d_out, values.t());
        ds.sub_(matrix(delta + row, tile.rows, 1, heads)).mul_(p);
        head_of(query_gradient + tile.first * width, tile.rows, heads, dim, tile.head).addmm_(ds, keys, 1, scale);
        head_of(scratch.dk, tile.keys, cost.kv_heads, dim, tile.kv_head).addmm_(ds.t(), queries, 1, scale);
        head_of(scratch.dv, tile.keys, cost.kv_heads, dim, tile.kv_head).addmm_(p.t(), d_out);
    });
    add_to_gradient_pages(issued, 0, scratch.dk);
    add_to_gradient_pages(issued, 1, scratch.dv);
}

// One plane of the window's pages, rows one after the other.
template <class T>
void CpuBackend<T>::gather_window(const Issued& issued, std::size_t plane, T* rows) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t page_tokens = plan_.run.page_tokens, width = model_.kv_width();
    const auto& frames = issued.grants[0].frames;
    for (std::size_t page = 0; page < frames.size(); ++page) {
        const std::int64_t first = static_cast<std::int64_t>(page) * page_tokens;
        const auto* from = reinterpret_cast<const T*>(
            memory_.frame(issued, Tier::kHbm, PageClass::kKv, plane, frames[page], Access::kRead));
        std::copy_n(from, std::min(page_tokens, cost.keys - first) * width, rows + first * width);
    }
}

// A page that this operation brought into being is written, the others are added to.
template <class T>
void CpuBackend<T>::add_to_gradient_pages(const Issued& issued, std::size_t plane, const T* rows) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t page_tokens = plan_.run.page_tokens, width = model_.kv_width();
    const paging::Grant& grant = issued.grants[1];
    for (std::size_t page = 0; page < grant.frames.size(); ++page) {
        const std::int64_t first = static_cast<std::int64_t>(page) * page_tokens;
        const std::int64_t elements = std::min(page_tokens, cost.keys - first) * width;
        auto* to = reinterpret_cast<T*>(
            memory_.frame(issued, Tier::kHbm, PageClass::kKvGradient, plane, grant.frames[page], Access::kWrite));
        const T* from = rows + first * width;
        if (grant.first_touch[page] != 0) {
            std::copy_n(from, elements, to);
        } else {
            std::transform(to, to + elements, from, to, std::plus<T>());
        }
    }
}

template <class T>
void CpuBackend<T>::merge(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, heads = model_.query_heads, width = model_.query_width();
    kernels::cpu::attention_merge<A, T>({.o = memory_.template write<A>(issued, kOutputSum, rows * width),
                                         .lse = memory_.template write<A>(issued, kLogSumExp, rows * heads),
                                         .o_part = memory_.template read<T>(issued, kOutputPart, rows * width),
                                         .lse_part = memory_.template read<A>(issued, kLogSumExpPart, rows * heads),
                                         .tokens = rows,
                                         .heads = heads,
                                         .head_dim = model_.head_dim});
}

template <class T>
void CpuBackend<T>::finish_attention(const Issued& issued) {
    const std::int64_t elements = issued.operation.rows * model_.query_width();
    const A* sum = memory_.template read<A>(issued, kOutputSum, elements);
    std::transform(sum, sum + elements, memory_.template write<T>(issued, kAttentionOutput, elements),
                   [](A value) { return T(value); });
}

template <class T>
void CpuBackend<T>::attention_delta(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, heads = model_.query_heads, width = model_.query_width();
    kernels::cpu::attention_delta<T>({.d_o = memory_.template read<T>(issued, kOutputGradient, rows * width),
                                      .o = memory_.template read<T>(issued, kAttentionOutput, rows * width),
                                      .delta = memory_.template write<A>(issued, kDelta, rows * heads),
                                      .tokens = rows,
                                      .heads = heads,
                                      .head_dim = model_.head_dim});
}

#define OOMB_ATTENTION(T)                                           \
    template void CpuBackend<T>::attention(const Issued&);          \
    template void CpuBackend<T>::attention_backward(const Issued&); \
    template void CpuBackend<T>::merge(const Issued&);              \
    template void CpuBackend<T>::finish_attention(const Issued&);   \
    template void CpuBackend<T>::attention_delta(const Issued&);
#define OOMB_ATTENTION_BY_LIBRARY(T)                                            \
    template void CpuBackend<T>::attend_by_library(const Issued&);              \
    template void CpuBackend<T>::backward_by_library(const Issued&);            \
    template void CpuBackend<T>::gather_window(const Issued&, std::size_t, T*); \
    template void CpuBackend<T>::add_to_gradient_pages(const Issued&, std::size_t, const T*);
OOMB_ATTENTION(BFloat16)
OOMB_ATTENTION(float)
OOMB_ATTENTION(double)
OOMB_ATTENTION_BY_LIBRARY(float)
OOMB_ATTENTION_BY_LIBRARY(double)
template void CpuBackend<BFloat16>::attend_by_kernel(const Issued&);
template void CpuBackend<BFloat16>::backward_by_kernel(const Issued&);

}  // namespace oomb::trainer
