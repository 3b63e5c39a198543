#pragma once
// One problem of kernels/qkv.hpp, run through a kernel set and through the references of its steps in float64.

#include <cmath>

#include "kernels/cpu/rms_norm.hpp"
#include "kernels/cpu/rope.hpp"
#include "tests/kernels/attention_case.hpp"
#include "tests/kernels/implementations.hpp"

namespace oomb::kernels::test {

struct QkvCase {
    std::int64_t rows, query_heads, kv_heads, head_dim, page_tokens;
    bool bias, norm;
    std::int64_t first_position = 0;

    static constexpr double kEps = 1e-5;
    static constexpr double kAttentionFactor = 1.2079;  // YaRN's for a factor of 8
    std::int64_t heads() const { return query_heads + 2 * kv_heads; }
    // The pages that hold the rows, as the attention tests' windows do.
    AttentionCase pages() const {
        return {rows, query_heads, kv_heads, head_dim, rows, page_tokens, {}, first_position, {}};
    }
};

// Queries, keys or values of all rows, and their parameters; empty where there is none.
struct QkvPart {
    std::int64_t first_head = 0, heads = 0;
    std::vector<double> bias, norm;
    std::vector<double> d_out;                      // in, [rows, heads, head_dim]
    std::vector<double> out, d_in, d_bias, d_norm;  // expected
};

template <class T>
struct QkvProblem {
    explicit QkvProblem(const QkvCase& shape) : c(shape), qkv(random_values<T>(c.rows * c.heads() * c.head_dim, 1)) {
        for (std::int64_t i = 0; i < c.head_dim / 2; ++i) {
            frequency.push_back(static_cast<float>(std::pow(1e4, -2.0 * double(i) / double(c.head_dim))));
        }
        parts[0] = part(0, c.query_heads, true, 10);
        parts[1] = part(c.query_heads, c.kv_heads, true, 20);
        parts[2] = part(c.query_heads + c.kv_heads, c.kv_heads, false, 30);
    }
    // The expected gradient of the product, [rows, heads, head_dim].
    std::vector<double> d_qkv() const {
        std::vector<double> all(qkv.size());
        for (const QkvPart& part : parts) {
            for (std::int64_t row = 0; row < c.rows; ++row) {
                std::copy_n(part.d_in.begin() + row * part.heads * c.head_dim, part.heads * c.head_dim,
                            all.begin() + (row * c.heads() + part.first_head) * c.head_dim);
            }
        }
        return all;
    }

    const QkvCase c;
    std::vector<double> qkv;
    std::vector<float> frequency;
    QkvPart parts[3];

  private:
    QkvPart part(std::int64_t first_head, std::int64_t heads, bool rotated, unsigned seed) {
        const std::int64_t width = heads * c.head_dim;
        QkvPart part;
        part.first_head = first_head;
        part.heads = heads;
        if (c.bias) {
            part.bias = random_values<T>(width, seed);
        }
        if (c.norm && rotated) {
            part.norm = random_values<T>(c.head_dim, seed + 1);
        }
        part.d_out = random_values<Accumulator<T>>(c.rows * width, seed + 2);
        std::vector<double> x;
        for (std::int64_t row = 0; row < c.rows; ++row) {
            for (std::int64_t i = 0; i < width; ++i) {
                x.push_back(qkv[(row * c.heads() + first_head) * c.head_dim + i] + (c.bias ? part.bias[i] : 0));
            }
        }
        forward(part, x, rotated);
        backward(part, x, rotated);
        return part;
    }
    RopeRotation<double> rotation(std::vector<double>& x, std::int64_t heads) {
        return {x.data(), frequency.data(), c.kAttentionFactor, c.rows, heads, c.head_dim, c.first_position, nullptr};
    }
    void forward(QkvPart& part, const std::vector<double>& x, bool rotated) {
        part.out = x;
        if (!part.norm.empty()) {
            cpu::rms_norm_forward<double>(
                {x.data(), part.norm.data(), part.out.data(), c.rows * part.heads, c.head_dim, c.kEps});
        }
        if (rotated) {
            cpu::rope_forward(rotation(part.out, part.heads));
        }
    }
    void backward(QkvPart& part, const std::vector<double>& x, bool rotated) {
        part.d_in = part.d_out;
        if (rotated) {
            cpu::rope_backward(rotation(part.d_in, part.heads));
        }
        part.d_norm.assign(part.norm.size(), 0);
        if (!part.norm.empty()) {
            cpu::rms_norm_backward<double>({part.d_in.data(), x.data(), part.norm.data(), part.d_in.data(),
                                            part.d_norm.data(), c.rows * part.heads, c.head_dim, c.kEps, false});
        }
        part.d_bias.assign(part.bias.size(), 0);
        for (std::size_t i = 0; !part.bias.empty() && i < part.d_in.size(); ++i) {
            part.d_bias[i % part.bias.size()] += part.d_in[i];
        }
    }
};

// Operands of a problem where the set's kernels reach them.
template <class Set>
struct QkvRun {
    using T = typename Set::Storage;
    using A = Accumulator<T>;

    explicit QkvRun(const QkvProblem<T>& p)
        : c(p.c),
          pages(c.pages()),
          qkv(narrow<T>(p.qkv)),
          query(poison<T>(c.rows * c.query_heads * c.head_dim)),
          q_bias(narrow<T>(p.parts[0].bias)),
          k_bias(narrow<T>(p.parts[1].bias)),
          v_bias(narrow<T>(p.parts[2].bias)),
          q_norm(narrow<T>(p.parts[0].norm)),
          k_norm(narrow<T>(p.parts[1].norm)),
          frequency(p.frequency),
          kv(pages, 0, c.rows, 3),
          d_query(narrow<A>(p.parts[0].d_out)),
          d_kv(pages, 0, c.rows, 4),
          d_q_bias(std::vector<A>(p.parts[0].bias.size(), A(0))),
          d_k_bias(std::vector<A>(p.parts[1].bias.size(), A(0))),
          d_v_bias(std::vector<A>(p.parts[2].bias.size(), A(0))),
          d_q_norm(std::vector<A>(p.parts[0].norm.size(), A(0))),
          d_k_norm(std::vector<A>(p.parts[1].norm.size(), A(0))) {
        d_kv.fill(p.parts[1].d_out, p.parts[2].d_out);
    }
    void forward(bool queries, bool keys) {
        Set::qkv_forward({.qkv = qkv.data(),
                          .q_bias = c.bias ? q_bias.data() : nullptr,
                          .k_bias = c.bias ? k_bias.data() : nullptr,
                          .v_bias = c.bias ? v_bias.data() : nullptr,
                          .q_norm = c.norm ? q_norm.data() : nullptr,
                          .k_norm = c.norm ? k_norm.data() : nullptr,
                          .inverse_frequency = frequency.data(),
                          .attention_factor = c.kAttentionFactor,
                          .query = queries ? query.data() : nullptr,
                          .kv = keys ? kv.view() : paging::PageView<T>{},
                          .rows = c.rows,
                          .query_heads = c.query_heads,
                          .kv_heads = c.kv_heads,
                          .head_dim = c.head_dim,
                          .first_position = c.first_position,
                          .eps = c.kEps});
    }
    // `sums`: gradients of parameters are asked for.
    void backward(bool sums = true) {
        Set::qkv_backward({.qkv = qkv.data(),
                           .q_bias = c.bias ? q_bias.data() : nullptr,
                           .k_bias = c.bias ? k_bias.data() : nullptr,
                           .v_bias = c.bias ? v_bias.data() : nullptr,
                           .q_norm = c.norm ? q_norm.data() : nullptr,
                           .k_norm = c.norm ? k_norm.data() : nullptr,
                           .inverse_frequency = frequency.data(),
                           .attention_factor = c.kAttentionFactor,
                           .d_query = d_query.data(),
                           .d_kv = d_kv.template view<const A>(),
                           .d_q_bias = sums && c.bias ? d_q_bias.data() : nullptr,
                           .d_k_bias = sums && c.bias ? d_k_bias.data() : nullptr,
                           .d_v_bias = sums && c.bias ? d_v_bias.data() : nullptr,
                           .d_q_norm = sums && c.norm ? d_q_norm.data() : nullptr,
                           .d_k_norm = sums && c.norm ? d_k_norm.data() : nullptr,
                           .rows = c.rows,
                           .query_heads = c.query_heads,
                           .kv_heads = c.kv_heads,
                           .head_dim = c.head_dim,
                           .first_position = c.first_position,
                           .eps = c.kEps});
    }
    // Keys, then values, [rows, kv_heads, head_dim] each.
    std::pair<std::vector<double>, std::vector<double>> keys_and_values() {
        std::pair<std::vector<double>, std::vector<double>> both;
        kv.gather(both.first, both.second);
        return both;
    }

    template <class E>
    static std::vector<E> poison(std::int64_t count) {
        return narrow<E>(std::vector<double>(count, std::numeric_limits<double>::quiet_NaN()));
    }

    const QkvCase c;
    const AttentionCase pages;
    BufferOf<Set, T> qkv, query, q_bias, k_bias, v_bias, q_norm, k_norm;
    BufferOf<Set, float> frequency;
    PagedWindow<Set, T> kv;
    BufferOf<Set, A> d_query;
    PagedWindow<Set, A> d_kv;
    BufferOf<Set, A> d_q_bias, d_k_bias, d_v_bias, d_q_norm, d_k_norm;
};

}  // namespace oomb::kernels::test
