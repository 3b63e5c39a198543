// Embedding against autograd.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

// G: the type of the stored gradient.
template <class Set, class G>
void check_embedding() {
    using T = typename Set::Storage;
    constexpr std::int64_t kVocab = 11;
    constexpr std::int64_t kWidth = 130;  // more than one block of columns
    const std::vector<std::int32_t> tokens{3, 10, 3, 0, 3, 7, 10};
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const auto table_values = random_values<T>(kVocab * kWidth, 1);
    const auto dy_values = random_values<T>(rows * kWidth, 2);
    auto expected = oracle::embedding(tokens, table_values, dy_values, kWidth);
    typename Set::template Buffer<std::int32_t> ids(tokens);
    typename Set::template Buffer<T> table(narrow<T>(table_values)), dy(narrow<T>(dy_values)), y(dy);
    typename Set::template Buffer<G> d_table(std::vector<G>(kVocab * kWidth, G(2)));
    Set::embedding_forward({ids.data(), table.data(), y.data(), rows, kVocab, kWidth});
    CHECK(widen(y.values()) == expected.y);
    Set::template embedding_backward<G>({ids.data(), dy.data(), d_table.data(), rows, kVocab, kWidth});
    for (double& value : expected.d_table) {
        value += 2;
    }
    CHECK(relative_error(d_table.values(), expected.d_table) < kTolerance<T, G>);
}

TEST_CASE_TEMPLATE("embedding with repeated tokens", Set, OOMB_KERNEL_SETS) {
    check_embedding<Set, Accumulator<typename Set::Storage>>();
}

// 1 + 100 * 2^-9: rounded to bf16 at every row it stays 1.
TEST_CASE_TEMPLATE("a gradient stored in the type of the activations is rounded once", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    check_embedding<Set, T>();
    typename Set::template Buffer<std::int32_t> ids(std::vector<std::int32_t>(100, 0));
    typename Set::template Buffer<T> dy(std::vector<T>(100, T(0x1p-9F))), d_table(std::vector<T>{T(1.0F)});
    Set::template embedding_backward<T>({ids.data(), dy.data(), d_table.data(), 100, 1, 1});
    CHECK(widen(d_table.values()) == widen(narrow<T>({1 + 100 * 0x1p-9})));
}

TEST_CASE("tokens outside the vocabulary are refused") {
    float values[4] = {};
    for (const std::int32_t token : {-1, 2}) {
        const EmbeddingForward<float> args{&token, values, values + 2, 1, 2, 1};
        CHECK_THROWS_WITH_AS(cpu::embedding_forward(args), doctest::Contains("outside the vocabulary of 2"),
                             InternalError);
        const EmbeddingBackward<float> backward{&token, values, values + 2, 1, 2, 1};
        CHECK_THROWS_AS(cpu::embedding_backward(backward), InternalError);
    }
}

}  // namespace
}  // namespace oomb::kernels::test
