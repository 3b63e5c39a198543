#pragma once
// One attention problem cut into windows of pages, run through a kernel set and through the oracle.

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/attention.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {

template <class Set, class E>
using BufferOf = typename Set::template Buffer<E>;

struct AttentionCase {
    std::int64_t tokens, query_heads, kv_heads, head_dim;
    std::int64_t keys;  // the first at position first_key
    std::int64_t page_tokens;
    std::vector<std::int64_t> cuts;  // window boundaries inside (0, keys), ascending
    std::int64_t first_key = 0;
    AttentionMask mask;
    double spread = 1.0;                             // of q and k
    std::vector<std::int64_t> document_starts = {};  // [tokens] or none; `mask` gets them where kernels can read them
};

// K and V (or their gradients) of keys [begin, end) in frames of random order. Whatever no key owns is NaN.
template <class Set, class E>
class PagedWindow {
  public:
    PagedWindow(const AttentionCase& c, std::int64_t begin, std::int64_t end, unsigned seed)
        : case_(c), begin_(begin), end_(end), frames_(shuffled_frames(seed)), k_(poison()), v_(poison()) {}

    void fill(const std::vector<double>& k, const std::vector<double>& v) {
        k_ = BufferOf<Set, E>(scatter(k));
        v_ = BufferOf<Set, E>(scatter(v));
    }
    std::int64_t pages() const { return (end_ - begin_ + case_.page_tokens - 1) / case_.page_tokens; }
    template <class View = E>
    paging::PageView<View> view() {
        return {k_.data(),      v_.data(),      frames_.data(),           case_.page_tokens,
                case_.kv_heads, case_.head_dim, case_.first_key + begin_, end_ - begin_};
    }
    // Appends the window's rows, [keys, kv_heads, head_dim].
    void gather(std::vector<double>& k, std::vector<double>& v) {
        append(k_.values(), k);
        append(v_.values(), v);
    }

  private:
    std::int64_t row_elements() const { return case_.kv_heads * case_.head_dim; }
    std::vector<std::int32_t> shuffled_frames(unsigned seed) const {
        std::vector<std::int32_t> all(2 * pages() + 1);
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), std::mt19937(seed));
        all.resize(pages());
        return all;
    }
    std::vector<E> poison() const {
        const std::vector<double> nan((2 * pages() + 1) * case_.page_tokens * row_elements(),
                                      std::numeric_limits<double>::quiet_NaN());
        return narrow<E>(nan);
    }
    std::int64_t offset(std::int64_t key) {
        return (std::int64_t{frames_.values()[(key - begin_) / case_.page_tokens]} * case_.page_tokens +
                (key - begin_) % case_.page_tokens) *
               row_elements();
    }
    std::vector<E> scatter(const std::vector<double>& rows) {
        std::vector<E> slab = poison();
        const std::vector<E> values = narrow<E>(rows);
        for (std::int64_t key = begin_; key < end_; ++key) {
            std::copy_n(values.begin() + key * row_elements(), row_elements(), slab.begin() + offset(key));
        }
        return slab;
    }
    void append(const std::vector<E>& slab, std::vector<double>& rows) {
        for (std::int64_t key = begin_; key < end_; ++key) {
            const std::int64_t first = offset(key);
            for (std::int64_t i = 0; i < row_elements(); ++i) {
                rows.push_back(load(slab[first + i]));
            }
        }
    }

    const AttentionCase& case_;
    std::int64_t begin_, end_;
    BufferOf<Set, std::int32_t> frames_;
    BufferOf<Set, E> k_, v_;
};

template <class T>
oracle::AttentionInput attention_input(const AttentionCase& c) {
    oracle::AttentionInput in;
    in.q = random_values<T>(c.tokens * c.query_heads * c.head_dim, 1, c.spread);
    in.d_o = random_values<T>(c.tokens * c.query_heads * c.head_dim, 2);
    in.k = random_values<T>(c.keys * c.kv_heads * c.head_dim, 3, c.spread);
    in.v = random_values<T>(c.keys * c.kv_heads * c.head_dim, 4);
    in.tokens = c.tokens;
    in.keys = c.keys;
    in.query_heads = c.query_heads;
    in.kv_heads = c.kv_heads;
    in.head_dim = c.head_dim;
    in.scale = 1 / std::sqrt(double(c.head_dim));
    // Written out here on its own, from the definition, not through AttentionMask's begin and end.
    for (std::int64_t i = 0; i < c.tokens; ++i) {
        for (std::int64_t j = 0; j < c.keys; ++j) {
            const std::int64_t query = c.mask.first_query + i;
            const std::int64_t key = c.first_key + j;
            const std::int64_t document = c.document_starts.empty() ? c.mask.document_start : c.document_starts[i];
            const bool in_slide = c.mask.sliding_window == 0 || key > query - c.mask.sliding_window;
            in.visible.push_back(key <= query && key >= document && in_slide);
        }
    }
    return in;
}

struct AttentionOutput {
    std::vector<double> o, lse, dq, dk, dv;
};

inline std::vector<std::int64_t> window_bounds(const AttentionCase& c) {
    std::vector<std::int64_t> bounds{0};
    bounds.insert(bounds.end(), c.cuts.begin(), c.cuts.end());
    bounds.push_back(c.keys);
    return bounds;
}

template <class Set>
AttentionMask mask_with(const AttentionCase& c, BufferOf<Set, std::int64_t>& document_starts) {
    AttentionMask mask = c.mask;
    mask.document_starts = c.document_starts.empty() ? nullptr : document_starts.data();
    return mask;
}

// Forward window by window, each merged into the sum of those before it.
template <class Set>
void run_forward(const AttentionCase& c, const oracle::AttentionInput& in, AttentionOutput& out) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    BufferOf<Set, T> q(narrow<T>(in.q));
    const std::vector<A> nan(in.q.size(), std::numeric_limits<A>::quiet_NaN());
    const std::vector<A> nan_rows(c.tokens * c.query_heads, std::numeric_limits<A>::quiet_NaN());
    BufferOf<Set, A> o(nan), o_part(nan), lse(nan_rows), lse_part(nan_rows);
    BufferOf<Set, std::int64_t> document_starts(c.document_starts);
    const auto bounds = window_bounds(c);
    for (std::size_t w = 0; w + 1 < bounds.size(); ++w) {
        PagedWindow<Set, T> kv(c, bounds[w], bounds[w + 1], unsigned(w));
        kv.fill(in.k, in.v);
        Set::attention_forward({.q = q.data(),
                                .kv = kv.template view<const T>(),
                                .o_part = o_part.data(),
                                .lse_part = lse_part.data(),
                                .tokens = c.tokens,
                                .query_heads = c.query_heads,
                                .scale = in.scale,
                                .mask = mask_with<Set>(c, document_starts)});
        Set::attention_merge(AttentionMerge<A, A>{.o = o.data(),
                                                  .lse = lse.data(),
                                                  .o_part = o_part.data(),
                                                  .lse_part = lse_part.data(),
                                                  .tokens = c.tokens,
                                                  .heads = c.query_heads,
                                                  .head_dim = c.head_dim,
                                                  .first = w == 0});
    }
    out.o = widen(o.values());
    out.lse = widen(lse.values());
}

// Backward window by window from the oracle's lse and delta. Gradient frames hold `before` (NaN: only a first touch may
// meet them).
template <class Set>
void run_backward(const AttentionCase& c, const oracle::AttentionInput& in, const oracle::AttentionResult& expected,
                  bool first_touch, double before, AttentionOutput& out) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    BufferOf<Set, T> q(narrow<T>(in.q)), d_o(narrow<T>(in.d_o));
    BufferOf<Set, A> lse(narrow<A>(expected.lse)), delta(narrow<A>(expected.delta));
    BufferOf<Set, A> dq(std::vector<A>(in.q.size(), A(before)));
    BufferOf<Set, std::int64_t> document_starts(c.document_starts);
    const auto bounds = window_bounds(c);
    for (std::size_t w = 0; w + 1 < bounds.size(); ++w) {
        PagedWindow<Set, T> kv(c, bounds[w], bounds[w + 1], unsigned(w));
        kv.fill(in.k, in.v);
        PagedWindow<Set, A> d_kv(c, bounds[w], bounds[w + 1], unsigned(w) + 100);
        if (!first_touch) {
            const std::vector<double> there(in.k.size(), before);
            d_kv.fill(there, there);
        }
        BufferOf<Set, std::uint8_t> touch(std::vector<std::uint8_t>(kv.pages(), 1));
        Set::attention_backward({.q = q.data(),
                                 .d_o = d_o.data(),
                                 .lse = lse.data(),
                                 .delta = delta.data(),
                                 .kv = kv.template view<const T>(),
                                 .dq = dq.data(),
                                 .d_kv = d_kv.view(),
                                 .first_touch = first_touch ? touch.data() : nullptr,
                                 .tokens = c.tokens,
                                 .query_heads = c.query_heads,
                                 .scale = in.scale,
                                 .mask = mask_with<Set>(c, document_starts)});
        d_kv.gather(out.dk, out.dv);
    }
    out.dq = widen(dq.values());
}

}  // namespace oomb::kernels::test
