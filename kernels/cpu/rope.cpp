#include "kernels/cpu/rope.hpp"

#include <cmath>
#include <vector>

#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

// Rows that share one buffer of sines: the allocation is paid once per block.
constexpr std::int64_t kRowBlock = 64;

template <class A>
struct SineRow {
    A* cosine;
    A* sine;
};

// `direction` is 1 for forward and -1 for backward. std::sin of a double reduces exactly at any position.
template <class T>
void sine_row(const RopeRotation<T>& args, std::int64_t row, double direction, const SineRow<Accumulator<T>>& out) {
    using A = Accumulator<T>;
    const std::int64_t position = args.positions != nullptr ? args.positions[row] : args.first_position + row;
    for (std::int64_t i = 0; i < args.head_dim / 2; ++i) {
        const double angle = static_cast<double>(position) * static_cast<double>(args.inverse_frequency[i]);
        out.cosine[i] = static_cast<A>(std::cos(angle)) * A(args.attention_factor);
        out.sine[i] = static_cast<A>(direction * std::sin(angle)) * A(args.attention_factor);
    }
}

template <class T>
void rotate_head(T* x, std::int64_t half, const SineRow<Accumulator<T>>& row) {
    using A = Accumulator<T>;
    const A* cosine = row.cosine;
    const A* sine = row.sine;
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
        const A low = load(x[i]);
        const A high = load(x[i + half]);
        store(x[i], low * cosine[i] - high * sine[i]);
        store(x[i + half], high * cosine[i] + low * sine[i]);
    }
}

template <class T>
void rotate(const RopeRotation<T>& args, double direction) {
    require(args.head_dim % 2 == 0, "rope: head_dim {} is odd", args.head_dim);
    const std::int64_t half = args.head_dim / 2;
    const std::int64_t blocks = blocks_of(args.rows, kRowBlock);
    std::vector<Accumulator<T>> sines(blocks * args.head_dim);
    parallel_blocks(args.rows, kRowBlock, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        const SineRow<Accumulator<T>> sine{&sines[block * args.head_dim], &sines[block * args.head_dim + half]};
        for (std::int64_t row = begin; row < end; ++row) {
            sine_row(args, row, direction, sine);
            for (std::int64_t head = 0; head < args.heads; ++head) {
                rotate_head(args.x + (row * args.heads + head) * args.head_dim, half, sine);
            }
        }
    });
}

}  // namespace

template <class T>
void rope_forward(const RopeRotation<T>& args) {
    rotate(args, 1.0);
}

template <class T>
void rope_backward(const RopeRotation<T>& args) {
    rotate(args, -1.0);
}

template void rope_forward(const RopeRotation<double>&);
template void rope_forward(const RopeRotation<float>&);
template void rope_forward(const RopeRotation<BFloat16>&);
template void rope_backward(const RopeRotation<double>&);
template void rope_backward(const RopeRotation<float>&);
template void rope_backward(const RopeRotation<BFloat16>&);

}  // namespace oomb::kernels::cpu
