#pragma once
// Operands of the token embedding.

#include <cstdint>

#include "kernels/element.hpp"

namespace oomb::kernels {

template <class T>
struct EmbeddingForward {
    const std::int32_t* tokens = nullptr;  // [rows], each in [0, vocab)
    const T* table = nullptr;              // [vocab, width]
    T* y = nullptr;                        // out [rows, width]
    std::int64_t rows = 0;
    std::int64_t vocab = 0;
    std::int64_t width = 0;
};

// d_table[tokens[i]] += dy[i]: the rows of a token in ascending order, in Accumulator<T>, and one rounding to G, the
// type in which the gradient is stored: Accumulator<T>, or T.
template <class T, class G = Accumulator<T>>
struct EmbeddingBackward {
    const std::int32_t* tokens = nullptr;  // [rows], each in [0, vocab)
    const T* dy = nullptr;                 // [rows, width]
    G* d_table = nullptr;                  // in/out [vocab, width], accumulated
    std::int64_t rows = 0;
    std::int64_t vocab = 0;
    std::int64_t width = 0;
};

}  // namespace oomb::kernels
