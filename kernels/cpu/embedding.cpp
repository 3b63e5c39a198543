#include "kernels/cpu/embedding.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

// Columns that one thread owns: wide enough that no two threads share a cache line.
constexpr std::int64_t kColumnBlock = 64;

void require_tokens(const std::int32_t* tokens, std::int64_t rows, std::int64_t vocab) {
    for (std::int64_t row = 0; row < rows; ++row) {
        require(tokens[row] >= 0 && tokens[row] < vocab,
                "embedding: token {} at row {} is outside the vocabulary of {}", tokens[row], row, vocab);
    }
}

}  // namespace

template <class T>
void embedding_forward(const EmbeddingForward<T>& args) {
    require_tokens(args.tokens, args.rows, args.vocab);
    parallel_rows(args.rows, [&](std::int64_t row) {
        std::copy_n(args.table + args.tokens[row] * args.width, args.width, args.y + row * args.width);
    });
}

template <class T, class G>
void embedding_backward(const EmbeddingBackward<T, G>& args) {
    require_tokens(args.tokens, args.rows, args.vocab);
    std::vector<std::int64_t> order(args.rows);  // the rows of a token one behind the other
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return args.tokens[a] < args.tokens[b]; });
    // A token may come twice: threads share out columns, not rows, so that every sum has one owner and one order.
    parallel_blocks(args.width, kColumnBlock, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        for (std::int64_t first = 0; first < args.rows;) {
            const std::int32_t token = args.tokens[order[first]];
            G* d_table = args.d_table + token * args.width;
            Accumulator<T> sums[kColumnBlock];
            std::transform(d_table + begin, d_table + end, sums, load<G>);
            for (; first < args.rows && args.tokens[order[first]] == token; ++first) {
                const T* dy = args.dy + order[first] * args.width;
                for (std::int64_t i = begin; i < end; ++i) {
                    sums[i - begin] += load(dy[i]);
                }
            }
            for (std::int64_t i = begin; i < end; ++i) {
                store(d_table[i], sums[i - begin]);
            }
        }
    });
}

template void embedding_forward(const EmbeddingForward<double>&);
template void embedding_forward(const EmbeddingForward<float>&);
template void embedding_forward(const EmbeddingForward<BFloat16>&);
template void embedding_backward(const EmbeddingBackward<double>&);
template void embedding_backward(const EmbeddingBackward<float>&);
template void embedding_backward(const EmbeddingBackward<BFloat16>&);
template void embedding_backward(const EmbeddingBackward<BFloat16, BFloat16>&);

}  // namespace oomb::kernels::cpu
