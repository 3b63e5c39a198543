// The number of threads changes no bit.
#include <doctest/doctest.h>
#include <omp.h>

#include <cstring>

#include "tests/kernels/attention_case.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/qkv_case.hpp"

namespace oomb::kernels::cpu {
namespace {

using test::narrow;
using test::random_values;

// `run` returns all results of a kernel; they are compared between 1 thread and more, fewer or more than there is work.
template <class Run>
void check_same_bits(const Run& run) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    const std::vector<float> expected = run();
    for (const int threads : {2, 3, 7}) {
        omp_set_num_threads(threads);
        const std::vector<float> actual = run();
        CHECK(actual.size() == expected.size());
        CHECK(std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(float)) == 0);
    }
    omp_set_num_threads(before);
}

std::vector<float> random_floats(std::int64_t count, unsigned seed) {
    return narrow<float>(random_values<float>(count, seed));
}

std::vector<float> joined(std::vector<float> left, const std::vector<float>& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

TEST_CASE("RMSNorm backward") {
    const auto dy = random_floats(300 * 24, 1), x = random_floats(300 * 24, 2), weight = random_floats(24, 3);
    check_same_bits([&] {
        std::vector<float> dx(300 * 24), d_weight(24);
        rms_norm_backward<float>(
            {dy.data(), x.data(), weight.data(), dx.data(), d_weight.data(), 300, 24, 1e-5, false});
        return joined(dx, d_weight);
    });
}

TEST_CASE("QKV forward and backward") {
    const test::QkvProblem<float> problem({300, 3, 1, 8, 16, true, true, 7});
    check_same_bits([&] {
        test::QkvRun<test::Cpu<float>> run(problem);
        run.forward(true, true);
        auto all = joined(run.query.values(), narrow<float>(run.keys_and_values().first));
        run.backward();
        all = joined(joined(all, run.qkv.values()), run.d_q_bias.values());
        return joined(joined(all, run.d_v_bias.values()), run.d_k_norm.values());
    });
}

TEST_CASE("embedding backward") {
    const auto dy = random_floats(300 * 200, 1);
    std::vector<std::int32_t> tokens(300);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<std::int32_t>(i * i % 5);
    }
    check_same_bits([&] {
        std::vector<float> d_table(5 * 200);
        embedding_backward<float>({tokens.data(), dy.data(), d_table.data(), 300, 5, 200});
        return d_table;
    });
}

TEST_CASE("cross entropy") {
    const auto logits = random_floats(40 * 1500, 1);
    const std::vector<std::int32_t> targets(40, 3);
    check_same_bits([&] {
        std::vector<float> gradient = logits;
        const auto sum = cross_entropy<float>({gradient.data(), targets.data(), nullptr, 40, 1500, 1.0});
        const auto* bits = reinterpret_cast<const float*>(&sum.loss);
        return joined(gradient, {bits[0], bits[1]});
    });
}

TEST_CASE("sum of squares") {
    const auto values = random_floats(50'000, 1);
    check_same_bits([&] {
        const double sum = sum_of_squares(values.data(), 50'000);
        const auto* bits = reinterpret_cast<const float*>(&sum);
        return std::vector<float>{bits[0], bits[1]};
    });
}

TEST_CASE("page means and scores") {
    const auto q = random_floats(50 * 6 * 16, 1), k = random_floats(9 * 8 * 2 * 16, 2);
    const std::vector<std::int32_t> frames = {3, 0, 1, 8, 7, 2, 4, 6, 5};
    check_same_bits([&] {
        std::vector<float> means(9 * 2 * 16), scores(7 * 9);
        page_means<float>({{k.data(), k.data(), frames.data(), 8, 2, 16, 0, 72}, means.data()});
        page_scores<float>({q.data(), means.data(), scores.data(), 50, 8, 9, 6, 2, 16, page_score_scale(16)});
        return joined(means, scores);
    });
}

TEST_CASE("attention") {
    const test::AttentionCase c{9, 6, 2, 16, 41, 8, {16}, 0, {.first_query = 32}};
    const auto in = test::attention_input<float>(c);
    const auto expected = oracle::attention(in);
    check_same_bits([&] {
        test::AttentionOutput out;
        test::run_forward<test::Cpu<float>>(c, in, out);
        test::run_backward<test::Cpu<float>>(c, in, expected, true, 0.0, out);
        auto all = joined(narrow<float>(out.o), narrow<float>(out.dq));
        return joined(joined(all, narrow<float>(out.dk)), narrow<float>(out.dv));
    });
}

}  // namespace
}  // namespace oomb::kernels::cpu
