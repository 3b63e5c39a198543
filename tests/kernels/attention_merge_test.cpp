// The merge of two normalised partials, and its corners.
#include <doctest/doctest.h>

#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"

namespace oomb::kernels::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Merged {
    std::vector<double> o, lse;
};

// One head of size 2 per row; P is the storage of the part.
template <class Set, class P>
Merged merge(const std::vector<double>& o, const std::vector<double>& lse, const std::vector<double>& o_part,
             const std::vector<double>& lse_part, bool first = false) {
    using A = Accumulator<typename Set::Storage>;
    typename Set::template Buffer<A> sum(narrow<A>(o)), sum_lse(narrow<A>(lse)), part_lse(narrow<A>(lse_part));
    typename Set::template Buffer<P> part(narrow<P>(o_part));
    Set::attention_merge(AttentionMerge<A, P>{.o = sum.data(),
                                              .lse = sum_lse.data(),
                                              .o_part = part.data(),
                                              .lse_part = part_lse.data(),
                                              .tokens = static_cast<std::int64_t>(lse.size()),
                                              .heads = 1,
                                              .head_dim = 2,
                                              .first = first});
    return {widen(sum.values()), widen(sum_lse.values())};
}

TEST_CASE_TEMPLATE("equal weights average, unequal ones lean", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const double log3 = std::log(3.0);
    const auto merged = merge<Set, T>({1, 5, 0, 8}, {2, 0}, {3, 1, 4, 0}, {2, log3});
    CHECK(relative_error(merged.o, {2, 3, 3, 2}) < kTolerance<T, Accumulator<T>>);
    CHECK(relative_error(merged.lse, {2 + std::log(2.0), std::log(4.0)}) < kTolerance<T, Accumulator<T>>);
}

TEST_CASE_TEMPLATE("a side without keys changes no bit and is not read", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const auto part_empty = merge<Set, T>({0.1, 0.2}, {0.3}, {kNan, kNan}, {-kInf});
    CHECK(part_empty.o == widen(narrow<Accumulator<T>>({0.1, 0.2})));
    CHECK(part_empty.lse == widen(narrow<Accumulator<T>>({0.3})));
    const auto sum_empty = merge<Set, T>({0, 0}, {-kInf}, {0.5, 0.25}, {0.75});
    CHECK(sum_empty.o == std::vector<double>{0.5, 0.25});
    CHECK(sum_empty.lse == std::vector<double>{0.75});
    const auto both_empty = merge<Set, T>({0, 0}, {-kInf}, {kNan, 0}, {-kInf});
    CHECK(both_empty.o == std::vector<double>{0, 0});
    CHECK(both_empty.lse == std::vector<double>{-kInf});
}

TEST_CASE_TEMPLATE("the first part is written over whatever was there", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const auto merged =
        merge<Set, T>({kNan, kNan, kNan, 9}, {kNan, kNan}, {0.5, 0.25, kNan, kNan}, {0.75, -kInf}, true);
    CHECK(merged.o == std::vector<double>{0.5, 0.25, 0, 0});
    CHECK(merged.lse == std::vector<double>{0.75, -kInf});
}

TEST_CASE_TEMPLATE("NaN is not hidden", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    CHECK(std::isnan(merge<Set, T>({1, 1}, {kNan}, {1, 1}, {0}).lse[0]));
    CHECK(std::isnan(merge<Set, T>({1, 1}, {0}, {1, 1}, {kNan}).lse[0]));
    CHECK(std::isnan(merge<Set, T>({1, 1}, {0}, {kNan, 1}, {0}).o[0]));
}

TEST_CASE_TEMPLATE("far apart sums neither overflow nor lose the larger", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const auto merged = merge<Set, T>({1, 1, 1, 1}, {1e4, -1e4}, {2, 2, 2, 2}, {-1e4, 1e4});
    CHECK(merged.o == std::vector<double>{1, 1, 2, 2});
    CHECK(merged.lse == std::vector<double>{1e4, 1e4});
}

}  // namespace
}  // namespace oomb::kernels::test
