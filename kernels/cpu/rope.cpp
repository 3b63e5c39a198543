#include "kernels/cpu/rope.hpp"

#include <vector>

#include "kernels/cpu/head_rows.hpp"
#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

// Rows that share one buffer of sines: the allocation is paid once per block.
constexpr std::int64_t kRowBlock = 64;

template <class T>
void rotate(const RopeRotation<T>& args, double direction) {
    require(args.head_dim % 2 == 0, "rope: head_dim {} is odd", args.head_dim);
    const std::int64_t half = args.head_dim / 2;
    const std::int64_t blocks = blocks_of(args.rows, kRowBlock);
    std::vector<Accumulator<T>> sines(blocks * args.head_dim);
    parallel_blocks(args.rows, kRowBlock, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        const SineRow<Accumulator<T>> sine{&sines[block * args.head_dim], &sines[block * args.head_dim + half], half};
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t position = args.positions != nullptr ? args.positions[row] : args.first_position + row;
            sine.fill(position, args.inverse_frequency, args.attention_factor, direction);
            for (std::int64_t head = 0; head < args.heads; ++head) {
                rotate_head(args.x + (row * args.heads + head) * args.head_dim, sine);
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
