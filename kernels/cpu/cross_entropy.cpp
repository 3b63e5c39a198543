#include "kernels/cpu/cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

// Float sums run over this many logits, and the sums of blocks in float64: a vocabulary of 150K loses no digits.
constexpr std::int64_t kVocabBlock = 1024;

template <class T>
void require_targets(const CrossEntropyTile<T>& args) {
    for (std::int64_t row = 0; row < args.rows; ++row) {
        const std::int32_t target = args.targets[row];
        require(target == kIgnoredTarget || (target >= 0 && target < args.vocab),
                "cross entropy: target {} at row {} is neither {} nor in the vocabulary of {}", target, row,
                kIgnoredTarget, args.vocab);
    }
}

// exp(logit - largest) / sum is a row's softmax: differences from the largest keep their digits where logits are huge.
template <class T>
struct RowSum {
    Accumulator<T> largest;
    double sum;  // of exp(logit - largest); NaN if any logit is not finite, -inf included
};

template <class T>
RowSum<T> sum_row(const T* logits, std::int64_t vocab) {
    using A = Accumulator<T>;
    const A largest = max_in_lanes<A>(vocab, [=](std::int64_t i) { return load(logits[i]); });
    double sum = 0;
    for (std::int64_t begin = 0; begin < vocab; begin += kVocabBlock) {
        const T* block = logits + begin;
        sum += sum_in_lanes<A>(std::min(kVocabBlock, vocab - begin), [=](std::int64_t i) {
            const A logit = load(block[i]);
            return exponential(logit - largest) + 0 * logit;  // 0 * logit is 0 for finite ones, NaN for the others
        });
    }
    return {largest, sum};
}

template <class T>
double loss_of(const RowSum<T>& row, const T* logits, std::int32_t target) {
    return std::log(row.sum) - (load(logits[target]) - row.largest);
}

template <class T>
void differentiate_row(const RowSum<T>& row, T* logits, std::int64_t vocab, std::int32_t target, double scale) {
    using A = Accumulator<T>;
    const A largest = row.largest;
    const A target_distance = load(logits[target]) - largest;
    const A factor = static_cast<A>(scale / row.sum);
#pragma omp simd
    for (std::int64_t i = 0; i < vocab; ++i) {
        store(logits[i], factor * exponential(load(logits[i]) - largest));
    }
    store(logits[target], factor * exponential(target_distance) - A(scale));
}

}  // namespace

template <class T>
CrossEntropySum cross_entropy(const CrossEntropyTile<T>& args) {
    require_targets(args);
    std::vector<double> losses(args.rows);
    parallel_rows(args.rows, [&](std::int64_t row) {
        T* logits = args.logits + row * args.vocab;
        const std::int32_t target = args.targets[row];
        if (target != kIgnoredTarget) {
            const RowSum<T> sums = sum_row(logits, args.vocab);
            losses[row] = loss_of(sums, logits, target);
            if (!args.losses_only) {
                differentiate_row(sums, logits, args.vocab, target, args.scale);
            }
        } else if (!args.losses_only) {
            std::fill_n(logits, args.vocab, T{});
        }
    });
    CrossEntropySum sum;
    for (std::int64_t row = 0; row < args.rows; ++row) {
        sum.loss += losses[row];
        sum.valid_targets += args.targets[row] == kIgnoredTarget ? 0 : 1;
        if (args.row_losses != nullptr) {
            args.row_losses[row] = static_cast<Accumulator<T>>(losses[row]);
        }
    }
    return sum;
}

template CrossEntropySum cross_entropy(const CrossEntropyTile<double>&);
template CrossEntropySum cross_entropy(const CrossEntropyTile<float>&);
template CrossEntropySum cross_entropy(const CrossEntropyTile<BFloat16>&);

}  // namespace oomb::kernels::cpu
