// Attention of the CPU backend over one window, or over the list of one query page after the other: their pages side by
// side, then matrix products per query head and tile of queries. kernels/cpu/attention.hpp is the plain definition it
// must agree with, and is what computes bf16.

#include <ATen/ops/amax.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention.hpp"
#include "trainer/cpu/attention_tiles.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/cpu/matrix.hpp"

namespace oomb::trainer {

using schedule::Access;
using schedule::AttentionCost;
using enum schedule::RegionName;

namespace {

// What a grant says of the block's pages.
template <class E>
std::vector<E> of_block(const std::vector<E>& of_grant, const AttentionBlock& block) {
    std::vector<E> chosen;
    for (const std::int64_t page : block.pages) {
        chosen.push_back(of_grant[page]);
    }
    return chosen;
}

// Parts of the attention scratch region; cpu_attention_elements() is their sum.
template <class T>
struct Scratch {
    T *k, *v;              // [keys, kv_heads, head_dim]
    T* scores;             // [query tile, keys]
    T *row_max, *row_sum;  // [query tile]
    T *dk, *dv;            // backward: as k
    T* gradients;          // backward: as scores

    Scratch(T* start, std::int64_t keys, std::int64_t kv_width, std::int64_t tile) {
        T** const parts[] = {&k, &v, &scores, &row_max, &row_sum, &dk, &dv, &gradients};
        const std::int64_t page = keys * kv_width, score = tile * keys;
        const std::int64_t sizes[] = {page, page, score, tile, tile, page, page, score};
        for (std::size_t i = 0; i < std::size(parts); ++i) {
            *parts[i] = start;
            start += sizes[i];
        }
    }
};

kernels::AttentionMask mask_of(const AttentionCost& cost, const AttentionBlock& block) {
    return {.first_query = cost.first_key + block.visible, .sliding_window = block.sliding_window};
}

double scale_of(const AttentionCost& cost) {
    return 1.0 / std::sqrt(static_cast<double>(cost.head_dim));
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
    const std::int64_t width = model_.query_width(), heads = cost.query_heads, elements = cost.queries * width;
    const std::int64_t before = row_in_chunk(issued) * width;
    const T* q = memory_.template read<T>(issued, kQuery, before + elements) + before;
    A* o = memory_.template write<A>(issued, whole ? kOutputSum : kAttentionScratch, elements);
    A* lse = memory_.template write<A>(issued, whole ? kLogSumExp : kLogSumExpPart, cost.queries * heads);
    auto kv = page_view<const T>(issued, 0, cost.first_key, cost.keys);
    for (const AttentionBlock& block : blocks_of(issued, plan_.run.page_tokens)) {
        const std::vector<std::int32_t> frames = of_block(issued.grants[0].frames, block);
        kv.frames = frames.data();
        kernels::cpu::attention_forward<T>({.q = q + block.first * width,
                                            .kv = kv,
                                            .o_part = o + block.first * width,
                                            .lse_part = lse + block.first * heads,
                                            .tokens = block.rows,
                                            .query_heads = heads,
                                            .scale = scale_of(cost),
                                            .mask = mask_of(cost, block)});
    }
    if (!whole) {
        std::transform(o, o + elements, memory_.template write<T>(issued, kOutputPart, elements),
                       [](A value) { return T(value); });
    }
}

template <class T>
void CpuBackend<T>::backward_by_kernel(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t width = model_.query_width(), heads = cost.query_heads;
    const std::int64_t before = row_in_chunk(issued), end = before + cost.queries;
    const T* q = memory_.template read<T>(issued, kQuery, end * width) + before * width;
    const T* d_o = memory_.template read<T>(issued, kOutputGradient, end * width) + before * width;
    const A* lse = memory_.template read<A>(issued, kLogSumExp, end * heads) + before * heads;
    const A* delta = memory_.template read<A>(issued, kDelta, end * heads) + before * heads;
    A* dq = memory_.template write<A>(issued, kQueryGradient, end * width) + before * width;
    if (issued.operation.id.part == 0 || cost.listed) {  // the first to meet these rows
        std::fill_n(dq, cost.queries * width, A{0});
    }
    auto kv = page_view<const T>(issued, 0, cost.first_key, cost.keys);
    auto d_kv = page_view<A>(issued, 1, cost.first_key, cost.keys);
    std::vector<std::uint8_t> untouched = issued.grants[1].first_touch;
    for (const AttentionBlock& block : blocks_of(issued, plan_.run.page_tokens)) {
        const std::vector<std::int32_t> frames = of_block(issued.grants[0].frames, block);
        const std::vector<std::int32_t> gradient_frames = of_block(issued.grants[1].frames, block);
        const std::vector<std::uint8_t> first_touch = of_block(untouched, block);
        kv.frames = frames.data();
        d_kv.frames = gradient_frames.data();
        kernels::cpu::attention_backward<T>({.q = q + block.first * width,
                                             .d_o = d_o + block.first * width,
                                             .lse = lse + block.first * heads,
                                             .delta = delta + block.first * heads,
                                             .kv = kv,
                                             .dq = dq + block.first * width,
                                             .d_kv = d_kv,
                                             .first_touch = first_touch.data(),
                                             .tokens = block.rows,
                                             .query_heads = heads,
                                             .scale = scale_of(cost),
                                             .mask = mask_of(cost, block)});
        for (const std::int64_t page : block.pages) {
            untouched[page] = 0;
        }
    }
}

template <class T>
void CpuBackend<T>::attend_by_library(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const bool whole = issued.operation.id.part == 0;
    const std::int64_t width = model_.query_width(), dim = cost.head_dim, kv_width = model_.kv_width();
    const std::int64_t tile_rows = std::min(cost.queries, schedule::kCpuQueryTile), before = row_in_chunk(issued);
    const T* q = memory_.template read<T>(issued, kQuery, (before + cost.queries) * width) + before * width;
    T* out = memory_.template write<T>(issued, whole ? kOutputSum : kOutputPart, cost.queries * width);
    T* lse = memory_.template write<T>(issued, whole ? kLogSumExp : kLogSumExpPart, cost.queries * cost.query_heads);
    const Scratch<T> scratch(
        memory_.template write<T>(issued, kAttentionScratch,
                                  schedule::cpu_attention_elements(cost.keys, kv_width, tile_rows, false)),
        cost.keys, kv_width, tile_rows);
    const double scale = scale_of(cost);

    for (const AttentionBlock& block : blocks_of(issued, plan_.run.page_tokens)) {
        gather_pages(issued, block, {scratch.k, scratch.v});
        for_each_tile(cost, block, [&](const AttentionTile& tile) {
            const auto queries = head_of(q + tile.first * width, tile.rows, cost.query_heads, dim, tile.head);
            const std::int64_t skipped = tile.first_key * kv_width;
            const auto keys = head_of(scratch.k + skipped, tile.keys(), cost.kv_heads, dim, tile.kv_head);
            const auto values = head_of(scratch.v + skipped, tile.keys(), cost.kv_heads, dim, tile.kv_head);
            auto scores = matrix(scratch.scores, tile.rows, tile.keys());
            auto row_max = matrix(scratch.row_max, tile.rows, 1);
            auto row_sum = matrix(scratch.row_sum, tile.rows, 1);
            at::mm_out(scores, queries, keys.t());
            scores.mul_(scale);
            mask_unseen(scratch.scores, tile, -std::numeric_limits<T>::infinity(), cost.sliding_window > 0);
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
}

// With p = exp(scale q.k - lse), ds = p (dO.v - delta): dq += scale ds k, dk += scale ds^T q, dv += p^T dO.
template <class T>
void CpuBackend<T>::backward_by_library(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t width = model_.query_width(), dim = cost.head_dim, kv_width = model_.kv_width();
    const std::int64_t heads = cost.query_heads;
    const std::int64_t tile_rows = std::min(cost.queries, schedule::kCpuQueryTile);
    const std::int64_t before = row_in_chunk(issued), rows_end = before + cost.queries;
    const T* q = memory_.template read<T>(issued, kQuery, rows_end * width) + before * width;
    const T* output_gradient = memory_.template read<T>(issued, kOutputGradient, rows_end * width) + before * width;
    const T* lse = memory_.template read<T>(issued, kLogSumExp, rows_end * heads) + before * heads;
    const T* delta = memory_.template read<T>(issued, kDelta, rows_end * heads) + before * heads;
    T* query_gradient = memory_.template write<T>(issued, kQueryGradient, rows_end * width) + before * width;
    const Scratch<T> scratch(
        memory_.template write<T>(issued, kAttentionScratch,
                                  schedule::cpu_attention_elements(cost.keys, kv_width, tile_rows, true)),
        cost.keys, kv_width, tile_rows);
    if (issued.operation.id.part == 0 || cost.listed) {  // the first to meet these rows
        std::fill_n(query_gradient, cost.queries * width, T{0});
    }
    const double scale = scale_of(cost);
    std::vector<std::uint8_t> untouched = issued.grants[1].first_touch;

    for (const AttentionBlock& block : blocks_of(issued, plan_.run.page_tokens)) {
        gather_pages(issued, block, {scratch.k, scratch.v});
        std::fill_n(scratch.dk, 2 * cost.keys * kv_width, T{0});
        for_each_tile(cost, block, [&](const AttentionTile& tile) {
            const auto queries = head_of(q + tile.first * width, tile.rows, heads, dim, tile.head);
            const auto d_out = head_of(output_gradient + tile.first * width, tile.rows, heads, dim, tile.head);
            const std::int64_t skipped = tile.first_key * kv_width;
            const auto keys = head_of(scratch.k + skipped, tile.keys(), cost.kv_heads, dim, tile.kv_head);
            const auto values = head_of(scratch.v + skipped, tile.keys(), cost.kv_heads, dim, tile.kv_head);
            auto p = matrix(scratch.scores, tile.rows, tile.keys());
            auto ds = matrix(scratch.gradients, tile.rows, tile.keys());
            const std::int64_t row = tile.first * heads + tile.head;
            at::mm_out(p, queries, keys.t());
            p.mul_(scale).sub_(matrix(lse + row, tile.rows, 1, heads)).exp_();
            mask_unseen(scratch.scores, tile, T{0}, cost.sliding_window > 0);
            at::mm_out(ds, d_out, values.t());
            ds.sub_(matrix(delta + row, tile.rows, 1, heads)).mul_(p);
            head_of(query_gradient + tile.first * width, tile.rows, heads, dim, tile.head).addmm_(ds, keys, 1, scale);
            head_of(scratch.dk + skipped, tile.keys(), cost.kv_heads, dim, tile.kv_head)
                .addmm_(ds.t(), queries, 1, scale);
            head_of(scratch.dv + skipped, tile.keys(), cost.kv_heads, dim, tile.kv_head).addmm_(p.t(), d_out);
        });
        add_to_gradient_pages(issued, block, {scratch.dk, scratch.dv}, untouched);
    }
}

// The block's pages, K and V, rows one after the other.
template <class T>
void CpuBackend<T>::gather_pages(const Issued& issued, const AttentionBlock& block, std::array<T*, 2> planes) {
    const std::int64_t page_tokens = plan_.run.page_tokens, width = model_.kv_width();
    for (std::size_t i = 0; i < block.pages.size(); ++i) {
        const std::int64_t first = static_cast<std::int64_t>(i) * page_tokens;
        const std::int64_t elements = std::min(page_tokens, block.keys - first) * width;
        const std::int32_t frame = issued.grants[0].frames[block.pages[i]];
        for (std::size_t plane = 0; plane < planes.size(); ++plane) {
            const auto* from = reinterpret_cast<const T*>(
                memory_.frame(issued, Tier::kHbm, PageClass::kKv, plane, frame, Access::kRead));
            std::copy_n(from, elements, planes[plane] + first * width);
        }
    }
}

// A page that this operation brought into being is written by the first block that has it, then added to.
template <class T>
void CpuBackend<T>::add_to_gradient_pages(const Issued& issued, const AttentionBlock& block,
                                          std::array<const T*, 2> planes, std::vector<std::uint8_t>& untouched) {
    const std::int64_t page_tokens = plan_.run.page_tokens, width = model_.kv_width();
    for (std::size_t i = 0; i < block.pages.size(); ++i) {
        const std::int64_t first = static_cast<std::int64_t>(i) * page_tokens;
        const std::int64_t elements = std::min(page_tokens, block.keys - first) * width;
        const std::int32_t frame = issued.grants[1].frames[block.pages[i]];
        for (std::size_t plane = 0; plane < planes.size(); ++plane) {
            auto* to = reinterpret_cast<T*>(
                memory_.frame(issued, Tier::kHbm, PageClass::kKvGradient, plane, frame, Access::kWrite));
            const T* from = planes[plane] + first * width;
            if (untouched[block.pages[i]] != 0) {
                std::copy_n(from, elements, to);
            } else {
                std::transform(to, to + elements, from, to, std::plus<T>());
            }
        }
        untouched[block.pages[i]] = 0;
    }
}

template <class T>
void CpuBackend<T>::merge(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, heads = model_.query_heads, width = model_.query_width();
    const std::int64_t before = row_in_chunk(issued), end = before + rows;
    kernels::cpu::attention_merge<A, T>(
        {.o = memory_.template write<A>(issued, kOutputSum, end * width) + before * width,
         .lse = memory_.template write<A>(issued, kLogSumExp, end * heads) + before * heads,
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
#define OOMB_ATTENTION_BY_LIBRARY(T)                                                                                  \
    template void CpuBackend<T>::attend_by_library(const Issued&);                                                    \
    template void CpuBackend<T>::backward_by_library(const Issued&);                                                  \
    template void CpuBackend<T>::gather_pages(const Issued&, const AttentionBlock&, std::array<T*, 2>);               \
    template void CpuBackend<T>::add_to_gradient_pages(const Issued&, const AttentionBlock&, std::array<const T*, 2>, \
                                                       std::vector<std::uint8_t>&);
OOMB_ATTENTION(BFloat16)
OOMB_ATTENTION(float)
OOMB_ATTENTION(double)
OOMB_ATTENTION_BY_LIBRARY(float)
OOMB_ATTENTION_BY_LIBRARY(double)
template void CpuBackend<BFloat16>::attend_by_kernel(const Issued&);
template void CpuBackend<BFloat16>::backward_by_kernel(const Issued&);

}  // namespace oomb::trainer
