#include "kernels/cpu/optimizer.hpp"

#include <cmath>
#include <vector>

#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/parallel.hpp"

namespace oomb::kernels::cpu {
namespace {

constexpr std::int64_t kBlock = 4096;

template <class T, class G>
void update_moments(const AdamWStep<T, G>& args, std::int64_t begin, std::int64_t end) {
    using A = Accumulator<T>;
    const A beta1 = A(args.beta1);
    const A beta2 = A(args.beta2);
    // 1 - beta in float64 first: in float 1 - 0.999 is off by 1e-5.
    const A rest1 = A(1 - args.beta1);
    const A rest2 = A(1 - args.beta2);
    const A scale = A(args.gradient_scale);
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
        const A g = scale * load(args.gradient[i]);
        args.m[i] = beta1 * args.m[i] + rest1 * g;
        args.v[i] = beta2 * args.v[i] + rest2 * (g * g);
    }
}

// `weights` are the masters of [begin, end).
template <class T, class G>
void update_weights(const AdamWStep<T, G>& args, Accumulator<T>* weights, std::int64_t begin, std::int64_t end) {
    using A = Accumulator<T>;
    const double correction1 = 1 - std::pow(args.beta1, static_cast<double>(args.step));
    const double correction2 = 1 - std::pow(args.beta2, static_cast<double>(args.step));
    const A kept = A(1 - args.learning_rate * args.weight_decay);
    const A rate = A(args.learning_rate / correction1);
    const A root_correction = A(std::sqrt(correction2));
    const A eps = A(args.eps);
    const A* m = args.m + begin;
    const A* v = args.v + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < end - begin; ++i) {
        weights[i] = weights[i] * kept - rate * m[i] / (std::sqrt(v[i]) / root_correction + eps);
    }
}

template <class T, class G>
void update_split_weights(const AdamWStep<T, G>& args, std::int64_t begin, std::int64_t end) {
    float masters[kBlock];
    for (std::int64_t i = begin; i < end; ++i) {
        masters[i - begin] = join_weight(args.weights_copy[i], args.remainders[i]);
    }
    update_weights(args, masters, begin, end);
    for (std::int64_t i = begin; i < end; ++i) {
        const SplitWeight split = split_weight(masters[i - begin]);
        args.weights_copy[i] = split.weight;
        args.remainders[i] = split.remainder;
    }
}

}  // namespace

template <class T, class G>
void adamw_step(const AdamWStep<T, G>& args) {
    const bool moves = args.learning_rate != 0;  // -0 - (-0) is +0: the formula would change the sign of zero weights
    parallel_blocks(args.count, kBlock, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        update_moments(args, begin, end);
        if constexpr (std::is_same_v<T, BFloat16>) {
            if (args.remainders != nullptr) {
                if (moves) {
                    update_split_weights(args, begin, end);
                }
                return;
            }
        }
        if (moves) {
            update_weights(args, args.weights + begin, begin, end);
        }
        for (std::int64_t i = begin; args.weights_copy != nullptr && i < end; ++i) {
            store(args.weights_copy[i], args.weights[i]);
        }
    });
}

template <class T>
double sum_of_squares(const T* values, std::int64_t count) {
    std::vector<double> partials(blocks_of(count, kBlock));
    parallel_blocks(count, kBlock, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        partials[block] = sum_in_lanes<double>(end - begin, [=](std::int64_t i) {
            const auto value = static_cast<double>(load(values[begin + i]));
            return value * value;
        });
    });
    double sum = 0;
    for (const double partial : partials) {
        sum += partial;
    }
    return sum;
}

template <class T>
std::int64_t find_non_finite(const T* values, std::int64_t count) {
    using A = Accumulator<T>;
    // 0 * value is 0 for finite values and NaN otherwise, so one sum tells whether a block is worth a closer look.
    std::vector<A> probes(blocks_of(count, kBlock));
    parallel_blocks(count, kBlock, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        probes[block] = sum_in_lanes<A>(end - begin, [=](std::int64_t i) { return 0 * load(values[begin + i]); });
    });
    for (std::int64_t block = 0; block < blocks_of(count, kBlock); ++block) {
        for (std::int64_t i = block * kBlock; probes[block] != 0 && i < count; ++i) {
            if (!std::isfinite(load(values[i]))) {
                return i;
            }
        }
    }
    return -1;
}

template void adamw_step(const AdamWStep<double>&);
template void adamw_step(const AdamWStep<float>&);
template void adamw_step(const AdamWStep<BFloat16>&);
template void adamw_step(const AdamWStep<BFloat16, BFloat16>&);
template double sum_of_squares(const double*, std::int64_t);
template double sum_of_squares(const float*, std::int64_t);
template double sum_of_squares(const BFloat16*, std::int64_t);
template std::int64_t find_non_finite(const double*, std::int64_t);
template std::int64_t find_non_finite(const float*, std::int64_t);
template std::int64_t find_non_finite(const BFloat16*, std::int64_t);

}  // namespace oomb::kernels::cpu
