#include "kernels/cpu/qkv.hpp"

#include <vector>

#include "kernels/cpu/head_rows.hpp"
#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

// Rows that share one working space, and whose sums are one thread's. Fixed, so that the order of sums is.
constexpr std::int64_t kRowBlock = 64;

template <class Args, class Pages>
void check(const Args& args, const Pages& pages) {
    require(pages.tokens == args.rows, "qkv: {} rows, but {} tokens of pages", args.rows, pages.tokens);
    require(pages.kv_heads == args.kv_heads && pages.head_dim == args.head_dim,
            "qkv: {} K/V heads of {}, but pages of {} heads of {}", args.kv_heads, args.head_dim, pages.kv_heads,
            pages.head_dim);
    require(pages.first_token == args.first_position, "qkv: rows start at position {}, but pages at {}",
            args.first_position, pages.first_token);
}

// Columns of head `head` of a parameter; null stays null.
template <class T>
T* at_head(T* parameter, std::int64_t head, std::int64_t head_dim) {
    return parameter == nullptr ? nullptr : parameter + head * head_dim;
}

// One head of one row: what the product gave it, its bias and its norm's weight (null: none).
template <class T>
struct Head {
    const T* linear;
    const T* bias;
    const T* norm;
};

template <class T>
void add_bias(const Head<T>& head, std::int64_t head_dim, Accumulator<T>* out) {
    for (std::int64_t i = 0; i < head_dim; ++i) {
        out[i] = load(head.linear[i]) + (head.bias == nullptr ? 0 : load(head.bias[i]));
    }
}

// `sines` is null for values; `work` is [head_dim].
template <class T>
void head_forward(const QkvForward<T>& args, const Head<T>& head, const SineRow<Accumulator<T>>* sines,
                  Accumulator<T>* work, T* out) {
    using A = Accumulator<T>;
    add_bias(head, args.head_dim, work);
    if (head.norm != nullptr) {
        const A r = inverse_root_mean_square(work, args.head_dim, args.eps);
        for (std::int64_t i = 0; i < args.head_dim; ++i) {
            work[i] = load(head.norm[i]) * (work[i] * r);
        }
    }
    if (sines != nullptr) {
        rotate_head(work, *sines);
    }
    for (std::int64_t i = 0; i < args.head_dim; ++i) {
        store(out[i], work[i]);
    }
}

template <class T>
void row_forward(const QkvForward<T>& args, std::int64_t row, const SineRow<Accumulator<T>>& sines,
                 Accumulator<T>* work) {
    const std::int64_t dim = args.head_dim;
    const T* queries = args.qkv + row * (args.query_heads + 2 * args.kv_heads) * dim;
    const T* keys = queries + args.query_heads * dim;
    const T* values = keys + args.kv_heads * dim;
    for (std::int64_t h = 0; args.query != nullptr && h < args.query_heads; ++h) {
        head_forward(args, {queries + h * dim, at_head(args.q_bias, h, dim), args.q_norm}, &sines, work,
                     args.query + (row * args.query_heads + h) * dim);
    }
    for (std::int64_t h = 0; args.kv.tokens != 0 && h < args.kv_heads; ++h) {
        head_forward(args, {keys + h * dim, at_head(args.k_bias, h, dim), args.k_norm}, &sines, work,
                     args.kv.k_row(row, h));
        head_forward<T>(args, {values + h * dim, at_head(args.v_bias, h, dim), nullptr}, nullptr, work,
                        args.kv.v_row(row, h));
    }
}

// Working space of a block of rows in backward, [head_dim] each.
template <class A>
struct Work {
    A* x;
    A* gradient;
};

// work.gradient, the gradient of the norm's output, becomes that of its input; `d_norm` += its weight's.
template <class T>
void head_norm_backward(const QkvBackward<T>& args, const Head<T>& head, const Work<Accumulator<T>>& work,
                        Accumulator<T>* d_norm) {
    using A = Accumulator<T>;
    A *x = work.x, *gradient = work.gradient;
    add_bias(head, args.head_dim, x);
    const A r = inverse_root_mean_square(x, args.head_dim, args.eps);
    const A projection =
        sum_in_lanes<A>(args.head_dim, [&](std::int64_t i) { return load(head.norm[i]) * gradient[i] * x[i]; });
    const A along_x = r * r * r / A(args.head_dim) * projection;
    for (std::int64_t i = 0; i < args.head_dim; ++i) {
        d_norm[i] += gradient[i] * (x[i] * r);
        gradient[i] = r * load(head.norm[i]) * gradient[i] - along_x * x[i];
    }
}

// Sums over rows, [heads, head_dim] for biases and [head_dim] for norms, of one block of rows.
template <class A>
struct Sums {
    A *q_bias, *k_bias, *v_bias, *q_norm, *k_norm;

    template <class T>
    static std::int64_t elements(const QkvBackward<T>& args) {
        return (args.query_heads + 2 * args.kv_heads + 2) * args.head_dim;
    }
    template <class T>
    Sums(const QkvBackward<T>& args, A* start)
        : q_bias(start),
          k_bias(q_bias + args.query_heads * args.head_dim),
          v_bias(k_bias + args.kv_heads * args.head_dim),
          q_norm(v_bias + args.kv_heads * args.head_dim),
          k_norm(q_norm + args.head_dim) {}
};

// `linear` is head.linear, written once it has been read.
template <class T>
void head_backward(const QkvBackward<T>& args, const Head<T>& head, T* linear, const Accumulator<T>* d_out,
                   const SineRow<Accumulator<T>>* sines, const Work<Accumulator<T>>& work, Accumulator<T>* d_bias,
                   Accumulator<T>* d_norm) {
    std::copy_n(d_out, args.head_dim, work.gradient);
    if (sines != nullptr) {
        rotate_head(work.gradient, *sines);
    }
    if (head.norm != nullptr) {
        head_norm_backward(args, head, work, d_norm);
    }
    for (std::int64_t i = 0; i < args.head_dim; ++i) {
        d_bias[i] += work.gradient[i];
        store(linear[i], work.gradient[i]);
    }
}

template <class T>
void row_backward(const QkvBackward<T>& args, std::int64_t row, const SineRow<Accumulator<T>>& sines,
                  const Work<Accumulator<T>>& work, const Sums<Accumulator<T>>& sums) {
    const std::int64_t dim = args.head_dim;
    T* queries = args.qkv + row * (args.query_heads + 2 * args.kv_heads) * dim;
    T* keys = queries + args.query_heads * dim;
    T* values = keys + args.kv_heads * dim;
    for (std::int64_t h = 0; h < args.query_heads; ++h) {
        T* linear = queries + h * dim;
        head_backward(args, {linear, at_head(args.q_bias, h, dim), args.q_norm}, linear,
                      args.d_query + (row * args.query_heads + h) * dim, &sines, work, sums.q_bias + h * dim,
                      sums.q_norm);
    }
    for (std::int64_t h = 0; h < args.kv_heads; ++h) {
        T* linear = keys + h * dim;
        head_backward(args, {linear, at_head(args.k_bias, h, dim), args.k_norm}, linear, args.d_kv.k_row(row, h),
                      &sines, work, sums.k_bias + h * dim, sums.k_norm);
        linear = values + h * dim;
        head_backward<T>(args, {linear, nullptr, nullptr}, linear, args.d_kv.v_row(row, h), nullptr, work,
                         sums.v_bias + h * dim, nullptr);
    }
}

template <class A>
void add(const A* from, std::int64_t count, A* to) {
    for (std::int64_t i = 0; to != nullptr && i < count; ++i) {
        to[i] += from[i];
    }
}

}  // namespace

template <class T>
void qkv_forward(const QkvForward<T>& args) {
    require(args.head_dim % 2 == 0, "qkv: head_dim {} is odd", args.head_dim);
    if (args.kv.tokens != 0) {
        check(args, args.kv);
    }
    const std::int64_t half = args.head_dim / 2;
    std::vector<Accumulator<T>> space(blocks_of(args.rows, kRowBlock) * 2 * args.head_dim);
    parallel_blocks(args.rows, kRowBlock, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        Accumulator<T>* own = space.data() + block * 2 * args.head_dim;
        const SineRow<Accumulator<T>> sines{own, own + half, half};
        for (std::int64_t row = begin; row < end; ++row) {
            sines.fill(args.first_position + row, args.inverse_frequency, args.attention_factor, 1.0);
            row_forward(args, row, sines, own + args.head_dim);
        }
    });
}

template <class T>
void qkv_backward(const QkvBackward<T>& args) {
    using A = Accumulator<T>;
    require(args.head_dim % 2 == 0, "qkv: head_dim {} is odd", args.head_dim);
    check(args, args.d_kv);
    const std::int64_t dim = args.head_dim, half = dim / 2;
    const std::int64_t blocks = blocks_of(args.rows, kRowBlock), sums_each = Sums<A>::elements(args);
    std::vector<A> space(blocks * 3 * dim), sums(blocks * sums_each);
    parallel_blocks(args.rows, kRowBlock, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        A* own = space.data() + block * 3 * dim;
        const SineRow<A> sines{own, own + half, half};
        const Work<A> work{own + dim, own + 2 * dim};
        const Sums<A> own_sums(args, sums.data() + block * sums_each);
        for (std::int64_t row = begin; row < end; ++row) {
            sines.fill(args.first_position + row, args.inverse_frequency, args.attention_factor, -1.0);
            row_backward(args, row, sines, work, own_sums);
        }
    });
    for (std::int64_t block = 0; block < blocks; ++block) {
        const Sums<A> from(args, sums.data() + block * sums_each);
        add(from.q_bias, args.query_heads * dim, args.d_q_bias);
        add(from.k_bias, args.kv_heads * dim, args.d_k_bias);
        add(from.v_bias, args.kv_heads * dim, args.d_v_bias);
        add(from.q_norm, dim, args.d_q_norm);
        add(from.k_norm, dim, args.d_k_norm);
    }
}

template void qkv_forward(const QkvForward<double>&);
template void qkv_forward(const QkvForward<float>&);
template void qkv_forward(const QkvForward<BFloat16>&);
template void qkv_backward(const QkvBackward<double>&);
template void qkv_backward(const QkvBackward<float>&);
template void qkv_backward(const QkvBackward<BFloat16>&);

}  // namespace oomb::kernels::cpu
