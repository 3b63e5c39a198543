// Gathering pages into contiguous rows, and adding rows to gradient pages.
#include <doctest/doctest.h>

#include "kernels/cuda/pages.hpp"
#include "tests/kernels/attention_case.hpp"
#include "tests/kernels/cuda/kernel_sets.hpp"

namespace oomb::kernels::test {
namespace {

// head_dim 64 moves in packs, 3 element by element; 21 keys leave the last page ragged.
const AttentionCase kCases[] = {
    {1, 2, 2, 64, 21, 4, {}, 0, {}}, {1, 3, 3, 3, 21, 4, {}, 0, {}}, {1, 1, 1, 8, 1, 16, {}, 0, {}}};

TEST_CASE_TEMPLATE("gathered pages are the rows that went in", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    for (const AttentionCase& c : kCases) {
        const auto in = attention_input<T>(c);
        PagedWindow<Set, T> window(c, 0, c.keys, 1);
        window.fill(in.k, in.v);
        DeviceBuffer<T> k(in.k.size()), v(in.v.size());
        cuda::gather_pages(cuda::PageGather<T>{window.template view<const T>(), k.data(), v.data()}, nullptr);
        wait();
        CHECK(widen(k.values()) == in.k);
        CHECK(widen(v.values()) == in.v);
    }
}

TEST_CASE_TEMPLATE("gradients are written to a fresh page and added to another", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    for (const AttentionCase& c : kCases) {
        const auto in = attention_input<T>(c);
        DeviceBuffer<T> dk(narrow<T>(in.k)), dv(narrow<T>(in.v));
        PagedWindow<Set, A> d_kv(c, 0, c.keys, 1);
        DeviceBuffer<std::uint8_t> fresh(std::vector<std::uint8_t>(d_kv.pages(), 1));
        cuda::add_to_gradient_pages(cuda::GradientPagesAdd<T>{dk.data(), dv.data(), d_kv.view(), fresh.data()},
                                    nullptr);
        cuda::add_to_gradient_pages(cuda::GradientPagesAdd<T>{dk.data(), dv.data(), d_kv.view(), nullptr}, nullptr);
        wait();
        std::vector<double> k_sum, v_sum;
        d_kv.gather(k_sum, v_sum);
        for (std::size_t i = 0; i < in.k.size(); ++i) {  // twice a number is exact
            CHECK(k_sum[i] == 2 * in.k[i]);
            CHECK(v_sum[i] == 2 * in.v[i]);
        }
    }
}

}  // namespace
}  // namespace oomb::kernels::test
