// Attention on the tensor cores over lists of pages, merged in place, far into a slab, and at a size where only the
// plain kernel can be compared with.
#include <doctest/doctest.h>

#include "tests/kernels/cuda/hopper_sets.hpp"
#include "tests/kernels/hopper_case.hpp"

namespace oomb::kernels::test {
namespace {

TEST_CASE_TEMPLATE("Hopper: a query page reads the pages of its list", Set, OOMB_HOPPER_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        check_lists<Set>({385, 6, 2, head_dim, 1'000, kPage, {}, 0, {.first_query = 1'000}}, 3);
        check_lists<Set>({385, 4, 1, head_dim, 1'000, kPage, {}, 0, {.first_query = 700}}, 4);  // and a mask
        check_lists<Set>({70, 7, 1, head_dim, 600, kPage, {}, 0, {.first_query = 600}}, 5);     // every page
    }
}

TEST_CASE_TEMPLATE("Hopper: a window is merged with the result before it, in place", Set, OOMB_HOPPER_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        // Some queries see nothing of the first window, some nothing of the second, some nothing at all.
        const AttentionCase cases[] = {
            {200, 3, 1, head_dim, 700, kPage, {}, 0, {.first_query = 500}},
            {200, 3, 1, head_dim, 300, kPage, {}, 0, {.first_query = 170, .sliding_window = 90}},
            {200, 3, 1, head_dim, 300, kPage, {}, 100, {.first_query = 50}}};
        for (const AttentionCase& c : cases) {
            check_merge<Set>(c);
        }
    }
}

TEST_CASE("Hopper: lists and a merge are refused where the plain kernel would run") {
    const AttentionForward<BFloat16> odd{.tokens = 1, .query_heads = 1, .scale = 1};
    auto with_heads = odd;
    with_heads.kv.kv_heads = 1;
    with_heads.kv.page_tokens = 16;
    CHECK_THROWS_WITH_AS(cuda::hopper::attention_forward(with_heads, {.merge = true}, nullptr),
                         doctest::Contains("no merge for 0 keys in pages of 16"), InternalError);
    CHECK_THROWS_AS(cuda::hopper::attention_forward(odd, {}, nullptr), InternalError);
}

// Largest difference over the largest magnitude.
double difference(const std::vector<float>& ours, const std::vector<float>& plain) {
    return relative_error(ours, widen(plain));
}

// Frame 20,000 of a slab begins at element 2.6e9: 5.2 GB of keys, 10.5 GB of their gradients. One page, eight KV heads.
TEST_CASE("Hopper: offsets beyond 2^31 elements, forward and backward") {
    constexpr std::int64_t kHeads = 8, kSize = 128, kFrame = 20'000, kTokens = 96;
    constexpr std::int64_t kPageElements = kPage * kHeads * kSize;
    DeviceBuffer<BFloat16> k(std::size_t(kPageElements * (kFrame + 1))), v(std::size_t(kPageElements * (kFrame + 1)));
    DeviceBuffer<float> dk(std::size_t(kPageElements * (kFrame + 1))), dv(std::size_t(kPageElements * (kFrame + 1)));
    const auto fill = [&](DeviceBuffer<BFloat16>& slab, unsigned seed) {
        const auto values = narrow<BFloat16>(random_values<BFloat16>(kPageElements, seed));
        require_cuda(cudaMemcpy(slab.data() + kPageElements * kFrame, values.data(), values.size() * sizeof(BFloat16),
                                cudaMemcpyHostToDevice),
                     "cudaMemcpy");
    };
    fill(k, 1);
    fill(v, 2);
    DeviceBuffer<std::int32_t> frames(std::vector<std::int32_t>{kFrame});
    DeviceBuffer<std::uint8_t> touch(std::vector<std::uint8_t>{1});
    DeviceBuffer<BFloat16> q(narrow<BFloat16>(random_values<BFloat16>(kTokens * kHeads * kSize, 3)));
    DeviceBuffer<float> lse(std::vector<float>(kTokens * kHeads)), delta(std::vector<float>(kTokens * kHeads, 0.1F));
    const paging::PageView<const BFloat16> kv{k.data(), v.data(), frames.data(), kPage, kHeads, kSize, 0, kPage};
    const paging::PageView<float> d_kv{dk.data(), dv.data(), frames.data(), kPage, kHeads, kSize, 0, kPage};
    const auto run = [&]<class Set>() {
        DeviceBuffer<float> o(std::size_t(kTokens * kHeads * kSize));
        DeviceBuffer<float> dq(std::vector<float>(kTokens * kHeads * kSize));
        Set::attention_forward(AttentionForward<BFloat16>{
            q.data(), kv, o.data(), lse.data(), kTokens, kHeads, 1 / std::sqrt(double(kSize)), {.first_query = 40}});
        Set::attention_backward(AttentionBackward<BFloat16>{q.data(),
                                                            q.data(),
                                                            lse.data(),
                                                            delta.data(),
                                                            kv,
                                                            dq.data(),
                                                            d_kv,
                                                            touch.data(),
                                                            kTokens,
                                                            kHeads,
                                                            1 / std::sqrt(double(kSize)),
                                                            {.first_query = 40}});
        std::vector<float> page(kPageElements);
        require_cuda(cudaMemcpy(page.data(), dk.data() + kPageElements * kFrame, page.size() * sizeof(float),
                                cudaMemcpyDeviceToHost),
                     "cudaMemcpy");
        return std::vector{o.values(), dq.values(), page};
    };
    const auto plain = run.template operator()<Cuda<BFloat16>>();
    const auto ours = run.template operator()<Hopper<cuda::hopper::ForwardKernel::kSpecialised>>();
    // Rounding to bfloat16 is worth half a unit of the largest result at most, and less where many terms add up.
    for (std::size_t i = 0; i < plain.size(); ++i) {
        CHECK(difference(ours[i], plain[i]) < 2 * kRoundoff<BFloat16>);
    }
}

// 1,024 queries of 28 heads over 3,000 keys: beside the plain kernel, whose sums are fp32 throughout. The mean
// difference is what rounding weights (and gradients of scores) to bfloat16 leaves of a relative error of up to 2^-8
// each.
TEST_CASE_TEMPLATE("Hopper: the plain kernel's results at the shape of a model", Set, OOMB_HOPPER_SETS) {
    const AttentionCase c{1'024, 28, 4, 128, 3'000, kPage, {}, 0, {.first_query = 1'976}};
    oracle::AttentionInput in;  // without the oracle's mask, which would be all that is large here
    in.q = random_values<BFloat16>(c.tokens * c.query_heads * c.head_dim, 1);
    in.d_o = random_values<BFloat16>(c.tokens * c.query_heads * c.head_dim, 2);
    in.k = random_values<BFloat16>(c.keys * c.kv_heads * c.head_dim, 3);
    in.v = random_values<BFloat16>(c.keys * c.kv_heads * c.head_dim, 4);
    in.scale = 1 / std::sqrt(double(c.head_dim));
    AttentionOutput plain, ours;
    run_forward<Cuda<BFloat16>>(c, in, plain);
    run_forward<Set>(c, in, ours);
    const auto mean_difference = [](const std::vector<double>& a, const std::vector<double>& b) {
        return mean_excess(a, b, b);
    };
    CHECK(mean_difference(ours.o, plain.o) < kRoundoff<BFloat16>);
    CHECK(mean_difference(ours.lse, plain.lse) < 1e-5);
    oracle::AttentionResult state;
    state.lse = plain.lse;
    state.delta.assign(plain.lse.size(), 0.25);
    run_backward<Cuda<BFloat16>>(c, in, state, true, 0.0, plain);
    run_backward<Set>(c, in, state, true, 0.0, ours);
    CHECK(mean_difference(ours.dq, plain.dq) < kRoundoff<BFloat16>);
    CHECK(mean_difference(ours.dk, plain.dk) < kRoundoff<BFloat16>);
    CHECK(mean_difference(ours.dv, plain.dv) < kRoundoff<BFloat16>);
}

}  // namespace
}  // namespace oomb::kernels::test
