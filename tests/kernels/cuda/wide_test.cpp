// What only the CUDA kernels distinguish: 16-byte packs, more rows than a grid has, offsets beyond 2^31, run to run.
#include <doctest/doctest.h>

#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

TEST_CASE_TEMPLATE("SwiGLU in packs, over more than one block of columns", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    constexpr std::int64_t kRows = 3;
    constexpr std::int64_t kWidth = 1304;
    const auto gate_values = random_values<T>(kRows * kWidth, 1, 4.0);
    const auto up_values = random_values<T>(kRows * kWidth, 2);
    const auto d_act_values = random_values<T>(kRows * kWidth, 3);
    const auto expected = oracle::swiglu(gate_values, up_values, d_act_values);
    typename Set::template Buffer<T> gate(narrow<T>(gate_values)), up(narrow<T>(up_values));
    typename Set::template Buffer<T> d_act(narrow<T>(d_act_values)), act(gate);
    Set::swiglu_forward({gate.data(), up.data(), act.data(), kRows, kWidth, kWidth});
    CHECK(relative_error(act.values(), expected.act) < kTolerance<T, T>);
    Set::swiglu_backward({d_act.data(), gate.data(), up.data(), gate.data(), up.data(), kRows, kWidth, kWidth});
    CHECK(relative_error(gate.values(), expected.d_gate) < kTolerance<T, T>);
    CHECK(relative_error(up.values(), expected.d_up) < kTolerance<T, T>);
}

TEST_CASE_TEMPLATE("RMSNorm with a block per row, rows and columns left over", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    for (const std::int64_t width : {2560, 515}) {
        constexpr std::int64_t kRows = 1061;  // two rows to most blocks, fewer to the last
        const auto x_values = random_values<T>(kRows * width, 1);
        const auto weight_values = random_values<T>(width, 2);
        const auto dy_values = random_values<T>(kRows * width, 3);
        const auto expected = oracle::rms_norm(x_values, weight_values, dy_values, 1e-5);
        typename Set::template Buffer<T> x(narrow<T>(x_values)), weight(narrow<T>(weight_values));
        typename Set::template Buffer<T> dy(narrow<T>(dy_values)), dx(dy);
        typename Set::template Buffer<Accumulator<T>> d_weight(std::vector<Accumulator<T>>(width, 0));
        Set::rms_norm_backward(
            {dy.data(), x.data(), weight.data(), dx.data(), d_weight.data(), kRows, width, 1e-5, false});
        CHECK(relative_error(dx.values(), expected.dx) < kTolerance<T, T>);
        CHECK(relative_error(d_weight.values(), expected.d_weight) < kTolerance<T, Accumulator<T>>);
        Set::rms_norm_forward({x.data(), weight.data(), x.data(), kRows, width, 1e-5});
        CHECK(relative_error(x.values(), expected.y) < kTolerance<T, T>);
    }
}

// More rows than a block looks at in one go, more columns than a block has; tokens on 16 bytes and beside them.
TEST_CASE_TEMPLATE("embedding in packs, with rows of a token far apart", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    constexpr std::int64_t kRows = 2100;
    constexpr std::int64_t kVocab = 50;
    constexpr std::int64_t kWidth = 4104;
    std::vector<std::int32_t> tokens(kRows);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<std::int32_t>(i * i % kVocab);
    }
    const auto table_values = random_values<T>(kVocab * kWidth, 1);
    const auto dy_values = random_values<T>(kRows * kWidth, 2);
    const auto expected = oracle::embedding(tokens, table_values, dy_values, kWidth);
    typename Set::template Buffer<T> table(narrow<T>(table_values)), dy(narrow<T>(dy_values)), y(dy);
    for (const std::int64_t shift : {0, 1}) {
        std::vector<std::int32_t> shifted(static_cast<std::size_t>(shift), 7);
        shifted.insert(shifted.end(), tokens.begin(), tokens.end());
        typename Set::template Buffer<std::int32_t> ids(shifted);
        typename Set::template Buffer<A> d_table(std::vector<A>(kVocab * kWidth, A(0)));
        Set::embedding_forward({ids.data() + shift, table.data(), y.data(), kRows, kVocab, kWidth});
        CHECK(widen(y.values()) == expected.y);
        Set::embedding_backward({ids.data() + shift, dy.data(), d_table.data(), kRows, kVocab, kWidth});
        CHECK(relative_error(d_table.values(), expected.d_table) < kTolerance<T, A>);
    }
}

TEST_CASE_TEMPLATE("tokens and targets outside the vocabulary poison and never reach out of bounds", Set,
                   OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    typename Set::template Buffer<std::int32_t> ids({-1, 2, 1});
    typename Set::template Buffer<T> table(narrow<T>({1, 2})), y(narrow<T>({0, 0, 0}));
    typename Set::template Buffer<Accumulator<T>> d_table(std::vector<Accumulator<T>>(2, 5));
    Set::embedding_forward({ids.data(), table.data(), y.data(), 3, 2, 1});
    const auto rows = widen(y.values());
    CHECK(std::isnan(rows[0]));
    CHECK(std::isnan(rows[1]));
    CHECK(rows[2] == 2);
    Set::embedding_backward({ids.data(), table.data(), d_table.data(), 2, 2, 1});
    CHECK(widen(d_table.values()) == std::vector<double>{5, 5});
    typename Set::template Buffer<T> logits(narrow<T>({1, 2}));
    CHECK(std::isnan(Set::cross_entropy({logits.data(), ids.data(), nullptr, 1, 2, 1.0}).loss));
}

// No order of blocks or warps may show: 40 runs of the kernels that sum across them.
TEST_CASE_TEMPLATE("the same operands give the same bits", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    constexpr std::int64_t kRows = 2000;
    constexpr std::int64_t kWidth = 520;
    typename Set::template Buffer<T> x(narrow<T>(random_values<T>(kRows * kWidth, 1)));
    typename Set::template Buffer<T> dy(narrow<T>(random_values<T>(kRows * kWidth, 2))), dx(dy);
    const std::vector<std::int32_t> targets(kRows, 3);
    typename Set::template Buffer<std::int32_t> ids(targets);
    const auto run = [&] {
        typename Set::template Buffer<A> sums(std::vector<A>(kWidth, A(0)));
        typename Set::template Buffer<T> logits(x);
        Set::rms_norm_backward({dy.data(), x.data(), x.data(), dx.data(), sums.data(), kRows, kWidth, 1e-5, false});
        Set::embedding_backward({ids.data(), dy.data(), sums.data() - 3 * kWidth, kRows, 4, kWidth});
        auto all = widen(sums.values());
        all.push_back(Set::sum_of_squares(x.data(), kRows * kWidth));
        all.push_back(Set::cross_entropy({logits.data(), ids.data(), nullptr, kRows, kWidth, 1.0}).loss);
        return all;
    };
    const auto first = run();
    for (int i = 0; i < 40; ++i) {
        CHECK(run() == first);
    }
}

// 2^31 + 2^17 elements: 4.3 GB in bfloat16.
TEST_CASE("more than 2^31 elements") {
    using Set = Cuda<BFloat16>;
    constexpr std::int64_t kWidth = 1 << 16;
    constexpr std::int64_t kRows = (1 << 15) + 2;
    DeviceBuffer<BFloat16> gate(static_cast<std::size_t>(kRows * kWidth)), last(std::size_t{8});
    require_cuda(cudaMemset(gate.data(), 0x3f, gate.bytes()), "cudaMemset");  // 0x3f3f is 0.74609375
    CHECK(Set::find_non_finite(gate.data(), kRows * kWidth) == -1);
    CHECK(Set::sum_of_squares(gate.data(), kRows * kWidth) ==
          doctest::Approx(0.74609375 * 0.74609375 * double(kRows * kWidth)).epsilon(1e-12));
    Set::swiglu_forward({gate.data(), gate.data(), gate.data(), kRows, kWidth, kWidth});
    BFloat16* tail = gate.data() + kRows * kWidth - 8;
    require_cuda(cudaMemcpy(last.data(), tail, last.bytes(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
    const double expected = 0.74609375 * 0.74609375 / (1 + std::exp(-0.74609375));
    for (const double value : widen(last.values())) {
        CHECK(value == doctest::Approx(expected).epsilon(2 * kRoundoff<BFloat16>));
    }
    require_cuda(cudaMemset(tail, 0xff, 2), "cudaMemset");
    CHECK(Set::find_non_finite(gate.data(), kRows * kWidth) == kRows * kWidth - 8);
}

}  // namespace
}  // namespace oomb::kernels::test
