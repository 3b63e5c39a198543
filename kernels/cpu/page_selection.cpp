#include "kernels/cpu/page_selection.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/attention_keys.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

template <class T>
void mean_of_page(const PageMeans<T>& args, std::int64_t page, std::int64_t kv_head, Accumulator<T>* sum) {
    using A = Accumulator<T>;
    const auto& kv = args.kv;
    std::fill_n(sum, kv.head_dim, A(0));
    for (std::int64_t row = page * kv.page_tokens; row < (page + 1) * kv.page_tokens; ++row) {
        add_scaled(sum, A(1), kv.k_row(row, kv_head), kv.head_dim);
    }
    T* mean = args.means + (page * kv.kv_heads + kv_head) * kv.head_dim;
    for (std::int64_t i = 0; i < kv.head_dim; ++i) {
        store(mean[i], sum[i] / A(kv.page_tokens));
    }
}

// Adds the softmax over all pages of one query token under one KV head. `query` is [head_dim], `weights` [pages].
template <class T>
void add_token(const PageScores<T>& args, std::int64_t token, std::int64_t kv_head, Accumulator<T>* query,
               Accumulator<T>* weights, Accumulator<T>* scores) {
    using A = Accumulator<T>;
    const std::int64_t group = args.query_heads / args.kv_heads, dim = args.head_dim;
    std::fill_n(query, dim, A(0));
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        add_scaled(query, A(1), args.q + (token * args.query_heads + head) * dim, dim);
    }
    for (std::int64_t page = 0; page < args.pages; ++page) {
        weights[page] = A(args.scale) * dot<A>(query, args.means + (page * args.kv_heads + kv_head) * dim, dim);
    }
    const A largest = max_in_lanes<A>(args.pages, [&](std::int64_t i) { return weights[i]; });
    for (std::int64_t page = 0; page < args.pages; ++page) {
        weights[page] = exponential(weights[page] - largest);
    }
    const A total = sum_in_lanes<A>(args.pages, [&](std::int64_t i) { return weights[i]; });
    add_scaled(scores, 1 / total, weights, args.pages);
}

template <class A>
void select_row(const SelectPages<A>& args, std::int64_t row) {
    const A* scores = args.scores + row * args.pages;
    std::vector<std::int32_t> order(args.pages);
    std::iota(order.begin(), order.end(), 0);
    const auto better = [&](std::int32_t a, std::int32_t b) {
        if (std::isnan(scores[a]) != std::isnan(scores[b])) {
            return std::isnan(scores[b]);
        }
        return scores[a] > scores[b] || (!(scores[b] > scores[a]) && a < b);
    };
    std::nth_element(order.begin(), order.begin() + args.count, order.end(), better);
    std::sort(order.begin(), order.begin() + args.count);
    std::copy_n(order.begin(), args.count, args.lists + row * args.count);
}

}  // namespace

template <class T>
void page_means(const PageMeans<T>& args) {
    const auto& kv = args.kv;
    require(kv.page_tokens > 0 && kv.tokens % kv.page_tokens == 0, "page means: {} tokens are no whole pages of {}",
            kv.tokens, kv.page_tokens);
    const std::int64_t heads = kv.tokens / kv.page_tokens * kv.kv_heads;
    std::vector<Accumulator<T>> sums(heads * kv.head_dim);
    parallel_rows(heads, [&](std::int64_t index) {
        mean_of_page(args, index / kv.kv_heads, index % kv.kv_heads, sums.data() + index * kv.head_dim);
    });
}

template <class T>
void page_scores(const PageScores<T>& args) {
    using A = Accumulator<T>;
    require_heads(args.query_heads, args.kv_heads);
    const std::int64_t each = args.head_dim + args.pages;
    std::vector<A> space(blocks_of(args.tokens, args.page_tokens) * each);
    parallel_blocks(args.tokens, args.page_tokens, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
        A* query = space.data() + row * each;
        A* scores = args.scores + row * args.pages;
        std::fill_n(scores, args.pages, A(0));
        for (std::int64_t token = begin; token < end; ++token) {
            for (std::int64_t kv_head = 0; kv_head < args.kv_heads; ++kv_head) {
                add_token(args, token, kv_head, query, query + args.head_dim, scores);
            }
        }
    });
}

template <class A>
void select_pages(const SelectPages<A>& args) {
    require(args.count >= 0 && args.count <= args.pages, "select pages: {} of {}", args.count, args.pages);
    parallel_rows(args.rows, [&](std::int64_t row) { select_row(args, row); });
}

void invert_lists(const ListInversion& args) {
    std::int32_t* reader = args.readers;
    for (std::int64_t page = 0; page < args.pages; ++page) {
        args.offsets[page] = static_cast<std::int32_t>(reader - args.readers);
        for (std::int64_t row = 0; row < args.rows; ++row) {
            const std::int32_t* list = args.lists + row * args.count;
            if (std::binary_search(list, list + args.count, page)) {
                *reader++ = static_cast<std::int32_t>(row);
            }
        }
    }
    args.offsets[args.pages] = static_cast<std::int32_t>(reader - args.readers);
}

template void page_means(const PageMeans<double>&);
template void page_means(const PageMeans<float>&);
template void page_means(const PageMeans<BFloat16>&);
template void page_scores(const PageScores<double>&);
template void page_scores(const PageScores<float>&);
template void page_scores(const PageScores<BFloat16>&);
template void select_pages(const SelectPages<double>&);
template void select_pages(const SelectPages<float>&);

}  // namespace oomb::kernels::cpu
