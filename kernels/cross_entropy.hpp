#pragma once
// Operands of cross entropy over one tile of rows: logits become their gradient in place, so that only a tile of the
// [tokens, vocab] matrix ever exists; or the losses alone.

#include <cstdint>

#include "kernels/element.hpp"

namespace oomb::kernels {

// Target of a row that counts neither in the loss nor in the number of valid targets; its gradient row is zero.
constexpr std::int32_t kIgnoredTarget = -100;

// loss_i = lse(logits_i) - logits_i[target],   d_logits_i = scale (softmax(logits_i) - onehot(target)).
template <class T>
struct CrossEntropyTile {
    T* logits = nullptr;                    // in [rows, vocab]: logits; out: gradient, unless losses_only
    const std::int32_t* targets = nullptr;  // [rows], in [0, vocab) or kIgnoredTarget
    Accumulator<T>* row_losses = nullptr;   // out [rows] or null; 0 for ignored rows
    std::int64_t rows = 0;
    std::int64_t vocab = 0;
    double scale = 1.0;        // 1 / valid targets of the whole optimizer step
    bool losses_only = false;  // logits are only read; the losses have the same bits
};

// Not scaled. A logit that is NaN or infinite (-inf too) in a row that counts makes the sum NaN.
struct CrossEntropySum {
    double loss = 0;
    std::int64_t valid_targets = 0;
};

}  // namespace oomb::kernels
