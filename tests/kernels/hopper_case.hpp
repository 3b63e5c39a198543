#pragma once
// What a Hopper kernel set has to compute, on a GPU (cuda/hopper_*_test.cpp) or on a model of one
// (hopper_emulation_test.cpp): results within what rounding to bfloat16 allows of float64.

#include <doctest/doctest.h>

#include "kernels/cuda/hopper/attention.hpp"
#include "tests/kernels/attention_case.hpp"
#include "tests/kernels/rounding_bounds.hpp"

namespace oomb::kernels::test {

// Two kernels either way.
constexpr cuda::hopper::BackwardKernel backward_beside(cuda::hopper::ForwardKernel forward) {
    return forward == cuda::hopper::ForwardKernel::kSimple ? cuda::hopper::BackwardKernel::kSimple
                                                           : cuda::hopper::BackwardKernel::kSpecialised;
}

// Where dq is ordered.
template <class Set>
BufferOf<Set, std::int32_t> turns_for(const AttentionBackward<BFloat16>& args) {
    const auto count = static_cast<std::size_t>(cuda::hopper::backward_turns(args.tokens, args.query_heads));
    return BufferOf<Set, std::int32_t>(std::vector<std::int32_t>(count, -7));
}

// If every rounding were off by its most, the mean would reach the bound; uniform errors, all of one sign, 1 / sqrt(3).
constexpr double kMean = 0.58;

inline void check_forward(const AttentionOutput& out, const oracle::AttentionResult& expected,
                          const RoundingBounds& bounds) {
    CHECK(excess(out.o, expected.o, bounds.o) < 1);
    CHECK(mean_excess(out.o, expected.o, bounds.o) < kMean);
    CHECK(excess(out.lse, expected.lse, std::vector<double>(out.lse.size(), bounds.score)) < 1);
}

inline void check_backward(const AttentionOutput& out, const oracle::AttentionResult& expected,
                           const RoundingBounds& bounds) {
    CHECK(excess(out.dq, expected.dq, bounds.dq) < 1);
    CHECK(excess(out.dk, expected.dk, bounds.dk) < 1);
    CHECK(excess(out.dv, expected.dv, bounds.dv) < 1);
    CHECK(mean_excess(out.dq, expected.dq, bounds.dq) < kMean);
    CHECK(mean_excess(out.dk, expected.dk, bounds.dk) < kMean);
    CHECK(mean_excess(out.dv, expected.dv, bounds.dv) < kMean);
}

template <class Set>
void check(const AttentionCase& c) {
    CAPTURE(c.tokens);
    CAPTURE(c.query_heads);
    CAPTURE(c.keys);
    CAPTURE(c.head_dim);
    CAPTURE(c.cuts.size());
    const auto in = attention_input<BFloat16>(c);
    const auto expected = oracle::attention(in);
    const auto bounds = rounding_bounds(in, expected);
    AttentionOutput out;
    run_forward<Set>(c, in, out);
    check_forward(out, expected, bounds);
    run_backward<Set>(c, in, expected, /*first_touch=*/true, 0.0, out);
    check_backward(out, expected, bounds);
}

constexpr std::int64_t kPage = 128;

// A list of pages of the window for each page of queries, ascending, and the same the other way about.
struct Lists {
    std::int64_t most;
    std::vector<std::vector<std::int32_t>> of_queries;

    Lists(const AttentionCase& c, std::int64_t longest, unsigned seed) : most(longest) {
        std::mt19937 random(seed);
        const std::int64_t pages = (c.keys + kPage - 1) / kPage;
        for (std::int64_t i = 0; i * kPage < c.tokens; ++i) {
            std::vector<std::int32_t> all(pages);
            std::iota(all.begin(), all.end(), 0);
            std::shuffle(all.begin(), all.end(), random);
            all.resize(std::min<std::int64_t>(pages, i % 3 == 2 ? most / 2 : most));  // every third is shorter
            std::sort(all.begin(), all.end());
            of_queries.push_back(all);
        }
    }
    bool reads(std::int64_t query, std::int64_t key) const {
        const auto& list = of_queries[query / kPage];
        return std::binary_search(list.begin(), list.end(), static_cast<std::int32_t>(key / kPage));
    }
    std::vector<std::int32_t> padded() const {
        std::vector<std::int32_t> result;
        for (const auto& list : of_queries) {
            result.insert(result.end(), list.begin(), list.end());
            result.resize(result.size() + most - list.size(), -1);
        }
        return result;
    }
    // Offsets, then query pages.
    std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>> readers(std::int64_t pages) const {
        std::vector<std::int32_t> offsets{0}, query_pages;
        for (std::int32_t page = 0; page < pages; ++page) {
            for (std::size_t i = 0; i < of_queries.size(); ++i) {
                if (std::binary_search(of_queries[i].begin(), of_queries[i].end(), page)) {
                    query_pages.push_back(static_cast<std::int32_t>(i));
                }
            }
            offsets.push_back(static_cast<std::int32_t>(query_pages.size()));
        }
        return {offsets, query_pages};
    }
};

inline std::vector<float> nan_floats(std::int64_t count) {
    return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

// Operands where kernels reach them, for calls that run_forward and run_backward do not make.
template <class Set>
struct Problem {
    const AttentionCase& c;
    oracle::AttentionInput in;
    BufferOf<Set, BFloat16> q, d_o;
    BufferOf<Set, float> o, lse;

    explicit Problem(const AttentionCase& problem)
        : c(problem),
          in(attention_input<BFloat16>(c)),
          q(narrow<BFloat16>(in.q)),
          d_o(narrow<BFloat16>(in.d_o)),
          o(nan_floats(c.tokens * c.query_heads * c.head_dim)),
          lse(nan_floats(c.tokens * c.query_heads)) {}

    void forward(PagedWindow<Set, BFloat16>& kv, const cuda::hopper::PageLists& lists, bool merge) {
        Set::attention_forward({.q = q.data(),
                                .kv = kv.template view<const BFloat16>(),
                                .o_part = o.data(),
                                .lse_part = lse.data(),
                                .tokens = c.tokens,
                                .query_heads = c.query_heads,
                                .scale = in.scale,
                                .mask = c.mask},
                               lists, merge);
    }
};

template <class Set>
void check_lists(const AttentionCase& c, std::int64_t most) {
    CAPTURE(c.head_dim);
    CAPTURE(c.tokens);
    const Lists lists(c, most, 3);
    Problem<Set> problem(c);
    for (std::int64_t i = 0; i < c.tokens * c.keys; ++i) {
        problem.in.visible[i] = problem.in.visible[i] != 0 && lists.reads(i / c.keys, i % c.keys) ? 1 : 0;
    }
    const auto expected = oracle::attention(problem.in);
    const auto bounds = rounding_bounds(problem.in, expected);
    PagedWindow<Set, BFloat16> kv(c, 0, c.keys, 1);
    kv.fill(problem.in.k, problem.in.v);
    BufferOf<Set, std::int32_t> listed(lists.padded());
    problem.forward(kv, {listed.data(), most}, false);
    CHECK(excess(widen(problem.o.values()), expected.o, bounds.o) < 1);
    CHECK(excess(widen(problem.lse.values()), expected.lse, std::vector<double>(expected.lse.size(), bounds.score)) <
          1);

    const auto [offsets, query_pages] = lists.readers(kv.pages());
    BufferOf<Set, std::int32_t> of_pages(offsets), readers(query_pages);
    BufferOf<Set, float> lse(narrow<float>(expected.lse)), delta(narrow<float>(expected.delta));
    BufferOf<Set, float> dq(std::vector<float>(problem.in.q.size(), 0.0F));
    BufferOf<Set, std::uint8_t> touch(std::vector<std::uint8_t>(kv.pages(), 1));
    PagedWindow<Set, float> d_kv(c, 0, c.keys, 7);
    Set::attention_backward({.q = problem.q.data(),
                             .d_o = problem.d_o.data(),
                             .lse = lse.data(),
                             .delta = delta.data(),
                             .kv = kv.template view<const BFloat16>(),
                             .dq = dq.data(),
                             .d_kv = d_kv.view(),
                             .first_touch = touch.data(),
                             .tokens = c.tokens,
                             .query_heads = c.query_heads,
                             .scale = problem.in.scale,
                             .mask = c.mask},
                            {of_pages.data(), readers.data()}, {listed.data(), most});
    std::vector<double> dk, dv;
    d_kv.gather(dk, dv);
    CHECK(excess(widen(dq.values()), expected.dq, bounds.dq) < 1);
    CHECK(excess(dk, expected.dk, bounds.dk) < 1);
    CHECK(excess(dv, expected.dv, bounds.dv) < 1);
}

// Three windows, each merged with those before it.
template <class Set>
void check_merge(const AttentionCase& c) {
    CAPTURE(c.head_dim);
    CAPTURE(c.keys);
    Problem<Set> problem(c);
    const auto expected = oracle::attention(problem.in);
    const auto bounds = rounding_bounds(problem.in, expected);
    const std::vector<std::int64_t> cuts{0, 130, 256, c.keys};
    for (int w = 0; w < 3; ++w) {
        PagedWindow<Set, BFloat16> kv(c, cuts[w], cuts[w + 1], unsigned(w));
        kv.fill(problem.in.k, problem.in.v);
        problem.forward(kv, {}, w > 0);
    }
    CHECK(excess(widen(problem.o.values()), expected.o, bounds.o) < 1);
    CHECK(excess(widen(problem.lse.values()), expected.lse,
                 std::vector<double>(expected.lse.size(), 2 * bounds.score)) < 1);
}

// Backward of a chunk as the trainer computes it: the windows of its history, then its own pages, whose gradients
// nobody has touched; every other page of the history holds something already, the rest NaN.
template <class Set>
void check_chunk_backward(const AttentionCase& c, Problem<Set>& problem, oracle::AttentionResult expected) {
    constexpr double kBefore = 0.25;
    const auto bounds = rounding_bounds(problem.in, expected);
    const auto parts = window_bounds(c);
    const std::int64_t chunk = parts[parts.size() - 2], row = c.kv_heads * c.head_dim;
    const auto touched = [&](std::int64_t key) { return key < chunk && key / kPage % 2 == 0; };
    std::vector<double> there(problem.in.k.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t i = 0; i < c.keys * row; ++i) {
        if (touched(i / row)) {
            there[i] = kBefore;
            expected.dk[i] += kBefore;
            expected.dv[i] += kBefore;
        }
    }
    BufferOf<Set, float> lse(narrow<float>(expected.lse)), delta(narrow<float>(expected.delta));
    BufferOf<Set, float> dq(std::vector<float>(problem.in.q.size(), 0.0F));
    std::vector<double> dk, dv;
    for (std::size_t part = 0; part + 1 < parts.size(); ++part) {
        PagedWindow<Set, BFloat16> kv(c, parts[part], parts[part + 1], unsigned(part));
        kv.fill(problem.in.k, problem.in.v);
        PagedWindow<Set, float> d_kv(c, parts[part], parts[part + 1], unsigned(part) + 100);
        d_kv.fill(there, there);
        std::vector<std::uint8_t> fresh;
        for (std::int64_t page = 0; page < kv.pages(); ++page) {
            fresh.push_back(touched(parts[part] + page * kPage) ? 0 : 1);
        }
        BufferOf<Set, std::uint8_t> first_touch(fresh);
        Set::attention_backward({.q = problem.q.data(),
                                 .d_o = problem.d_o.data(),
                                 .lse = lse.data(),
                                 .delta = delta.data(),
                                 .kv = kv.template view<const BFloat16>(),
                                 .dq = dq.data(),
                                 .d_kv = d_kv.view(),
                                 .first_touch = first_touch.data(),
                                 .tokens = c.tokens,
                                 .query_heads = c.query_heads,
                                 .scale = problem.in.scale,
                                 .mask = c.mask});
        d_kv.gather(dk, dv);
    }
    CHECK(excess(widen(dq.values()), expected.dq, bounds.dq) < 1);
    CHECK(excess(dk, expected.dk, bounds.dk) < 1);
    CHECK(excess(dv, expected.dv, bounds.dv) < 1);
}

// A chunk as --attention-kernels own computes it: `c.tokens` queries on the last as many keys, causal, in pages of
// which the last may be ragged; then the history before them, cut into windows of all pages in order, merged in place.
template <class Set>
void check_chunk(const AttentionCase& c) {
    CAPTURE(c.head_dim);
    CAPTURE(c.keys);
    Problem<Set> problem(c);
    const auto expected = oracle::attention(problem.in);
    const auto bounds = rounding_bounds(problem.in, expected);
    const auto parts = window_bounds(c);
    const std::size_t own = parts.size() - 2;
    REQUIRE(parts[own] == c.mask.first_query);
    for (std::size_t i = 0; i <= own; ++i) {
        const std::size_t part = i == 0 ? own : i - 1;
        PagedWindow<Set, BFloat16> kv(c, parts[part], parts[part + 1], unsigned(part));
        kv.fill(problem.in.k, problem.in.v);
        problem.forward(kv, {}, i > 0);
    }
    CHECK(excess(widen(problem.o.values()), expected.o, bounds.o) < 1);
    CHECK(excess(widen(problem.lse.values()), expected.lse,
                 std::vector<double>(expected.lse.size(), 2 * bounds.score)) < 1);
    check_chunk_backward<Set>(c, problem, expected);
}

}  // namespace oomb::kernels::test
