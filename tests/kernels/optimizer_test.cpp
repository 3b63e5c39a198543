// AdamW against torch's, and the reductions before it.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "tests/kernels/compare.hpp"
#include "tests/kernels/implementations.hpp"
#include "tests/kernels/oracle.hpp"

namespace oomb::kernels::test {
namespace {

constexpr std::int64_t kCount = 5000;  // more than one block

template <class Set>
struct AdamWRun {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    template <class E>
    using Buffer = typename Set::template Buffer<E>;

    explicit AdamWRun(const std::vector<double>& initial)
        : weights(narrow<A>(initial)),
          m(std::vector<A>(initial.size(), A(0))),
          v(m),
          copy(std::vector<T>(initial.size())) {}

    AdamWStep<T> args(std::int64_t step, Buffer<A>& gradient) {
        return {.weights = weights.data(),
                .gradient = gradient.data(),
                .m = m.data(),
                .v = v.data(),
                .weights_copy = copy.data(),
                .count = static_cast<std::int64_t>(weights.values().size()),
                .step = step};
    }

    Buffer<A> weights, m, v;
    Buffer<T> copy;
};

// The gradient's scale of 0.5 is a power of two: the oracle's scaled gradient is exact.
TEST_CASE_TEMPLATE("four AdamW steps with decay, clipping and a copy", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    const oracle::AdamWSettings settings{3e-2, 0.9, 0.95, 1e-8, 0.1};
    const auto initial = random_values<A>(kCount, 1);
    oracle::AdamWState expected{initial, std::vector<double>(kCount), std::vector<double>(kCount)};
    AdamWRun<Set> run(initial);
    for (std::int64_t step = 1; step <= 4; ++step) {
        auto gradient_values = random_values<A>(kCount, unsigned(step) + 10);
        typename Set::template Buffer<A> gradient(narrow<A>(gradient_values));
        auto args = run.args(step, gradient);
        args.learning_rate = settings.learning_rate;
        args.weight_decay = settings.weight_decay;
        args.gradient_scale = 0.5;
        Set::adamw_step(args);
        for (double& value : gradient_values) {
            value *= 0.5;
        }
        oracle::adamw(expected, gradient_values, step, settings);
        CHECK(relative_error(run.weights.values(), expected.weights) < kTolerance<T, A>);
        CHECK(relative_error(run.m.values(), expected.m) < kTolerance<T, A>);
        CHECK(relative_error(run.v.values(), expected.v) < kTolerance<T, A>);
        CHECK(widen(run.copy.values()) == widen(narrow<T>(widen(run.weights.values()))));
    }
}

// The master weights of a step whose storage is split, joined.
template <class Remainders>
std::vector<float> joined(const std::vector<BFloat16>& weights, const Remainders& remainders) {
    std::vector<float> masters(weights.size());
    std::transform(weights.begin(), weights.end(), remainders.begin(), masters.begin(), join_weight);
    return masters;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
    std::vector<std::uint32_t> bits(values.size());
    std::transform(values.begin(), values.end(), bits.begin(), std::bit_cast<std::uint32_t, float>);
    return bits;
}

// Exactly between two bf16 numbers of which the one nearer to zero is even: nearest even goes there, a split weight
// not.
bool is_tie_down(float master) {
    return (std::bit_cast<std::uint32_t>(master) & 0x1ffffU) == 0x8000U;
}

template <class Set>
struct SplitRun {
    using T = typename Set::Storage;
    template <class E>
    using Buffer = typename Set::template Buffer<E>;

    static std::vector<SplitWeight> split(const std::vector<float>& masters) {
        std::vector<SplitWeight> all(masters.size());
        std::transform(masters.begin(), masters.end(), all.begin(), split_weight);
        return all;
    }
    template <class Part>
    static auto part_of(const std::vector<SplitWeight>& all, Part SplitWeight::*part) {
        std::vector<Part> values(all.size());
        std::transform(all.begin(), all.end(), values.begin(), [&](const SplitWeight& one) { return one.*part; });
        return values;
    }

    explicit SplitRun(const std::vector<float>& masters)
        : weights(part_of(split(masters), &SplitWeight::weight)),
          remainders(part_of(split(masters), &SplitWeight::remainder)),
          m(std::vector<float>(masters.size())),
          v(m) {}

    Buffer<BFloat16> weights;
    Buffer<std::uint16_t> remainders;
    Buffer<float> m, v;
};

// The same steps with whole and with split masters; the numbers cover many binades, and the learning rate is such that
// the weights walk through them. Every bit of masters, m and v must be equal, and of the weights save at ties.
template <class Set, class G>
void check_split(std::int64_t count, std::int64_t steps) {
    const std::vector<double> initial = random_values<float>(count, 3);
    AdamWRun<Set> whole(initial);
    SplitRun<Set> split(whole.weights.values());
    std::int64_t ties = 0, wrong = 0;
    for (std::int64_t step = 1; step <= steps; ++step) {
        typename Set::template Buffer<G> gradient(narrow<G>(random_values<float>(count, unsigned(step) + 100, 1e-3)));
        AdamWStep<BFloat16, G> args{.weights = whole.weights.data(),
                                    .gradient = gradient.data(),
                                    .m = whole.m.data(),
                                    .v = whole.v.data(),
                                    .weights_copy = whole.copy.data(),
                                    .count = count,
                                    .step = step,
                                    .learning_rate = 1e-2,
                                    .weight_decay = 0.1,
                                    .gradient_scale = 0.7};
        Set::adamw_step(args);
        args.weights = nullptr;
        args.m = split.m.data();
        args.v = split.v.data();
        args.weights_copy = split.weights.data();
        args.remainders = split.remainders.data();
        Set::adamw_step(args);
        const std::vector<float> masters = whole.weights.values();
        const std::vector<BFloat16> rounded = whole.copy.values(), weights = split.weights.values();
        REQUIRE(bits_of(joined(weights, split.remainders.values())) == bits_of(masters));
        for (std::int64_t i = 0; i < count; ++i) {
            const int tie = is_tie_down(masters[i]) ? 1 : 0;
            ties += tie;
            wrong += weights[i].bits == rounded[i].bits + tie ? 0 : 1;
        }
        REQUIRE(wrong == 0);
    }
    CHECK(bits_of(split.m.values()) == bits_of(whole.m.values()));
    CHECK(bits_of(split.v.values()) == bits_of(whole.v.values()));
    // One master in 2^17 is expected to be one: 80 for 5,000 weights and 2,000 steps.
    MESSAGE(steps, " steps of ", count, " weights: ", ties, " ties");
}

TEST_CASE_TEMPLATE("split master weights are the whole ones, bit for bit, over 2,000 steps", Set, OOMB_KERNEL_SETS) {
    if constexpr (std::is_same_v<typename Set::Storage, BFloat16>) {
        check_split<Set, float>(kCount, 2000);
        check_split<Set, BFloat16>(kCount + 3, 20);  // the last ones are no pack
    }
}

// Steps of exact binary fractions end on a tie: m = 0, so that only decay moves the weight, by half of it.
TEST_CASE_TEMPLATE("at a tie a split weight goes away from zero, a whole one to even", Set, OOMB_KERNEL_SETS) {
    if constexpr (std::is_same_v<typename Set::Storage, BFloat16>) {
        const float down = 1 + 0x1p-8F, up = 1 + 3 * 0x1p-8F;  // the even neighbours: 1, and 1 + 4 * 2^-8
        SplitRun<Set> split({2 * down, -2 * down, 2 * up, -0.0F});
        AdamWRun<Set> whole({2 * down, -2 * down, 2 * up, -0.0});
        typename Set::template Buffer<float> gradient(std::vector<float>(4));
        AdamWStep<BFloat16> args = whole.args(1, gradient);
        args.learning_rate = 0.5;
        args.weight_decay = 1;
        Set::adamw_step(args);
        args.weights = nullptr;
        args.weights_copy = split.weights.data();
        args.remainders = split.remainders.data();
        Set::adamw_step(args);
        CHECK(widen(whole.copy.values()) == std::vector<double>{1, -1, 1 + 0x1p-6, 0});
        CHECK(widen(split.weights.values()) == std::vector<double>{1 + 0x1p-7, -1 - 0x1p-7, 1 + 0x1p-6, 0});
        CHECK(joined(split.weights.values(), split.remainders.values()) == whole.weights.values());
    }
}

TEST_CASE_TEMPLATE("a gradient stored in the type of the weights is widened, no more", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    using A = Accumulator<T>;
    const auto initial = random_values<A>(kCount + 1, 1);
    const std::vector<T> stored = narrow<T>(random_values<A>(kCount + 1, 2));
    AdamWRun<Set> wide(initial), narrowed(initial);
    typename Set::template Buffer<A> wide_gradient(narrow<A>(widen(stored)));
    typename Set::template Buffer<T> narrow_gradient(stored);
    AdamWStep<T> args = wide.args(1, wide_gradient);
    args.learning_rate = 1e-2;
    Set::adamw_step(args);
    const AdamWStep<T, T> narrow_args{.weights = narrowed.weights.data(),
                                      .gradient = narrow_gradient.data(),
                                      .m = narrowed.m.data(),
                                      .v = narrowed.v.data(),
                                      .weights_copy = narrowed.copy.data(),
                                      .count = kCount + 1,
                                      .learning_rate = 1e-2};
    Set::adamw_step(narrow_args);
    CHECK(widen(narrowed.weights.values()) == widen(wide.weights.values()));
    CHECK(widen(narrowed.v.values()) == widen(wide.v.values()));
    CHECK(widen(narrowed.copy.values()) == widen(wide.copy.values()));
}

TEST_CASE("a split weight joins to what it was: every upper half with remainders around the middle") {
    for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
        for (const std::uint32_t remainder : {0x0U, 0x1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
            const auto master = std::bit_cast<float>(upper << 16 | remainder);
            const SplitWeight split = split_weight(master);
            const float back = join_weight(split.weight, split.remainder);
            if (std::isnan(master)) {
                REQUIRE(std::isnan(back));
                REQUIRE(std::isnan(static_cast<float>(split.weight)));
                continue;
            }
            REQUIRE(std::bit_cast<std::uint32_t>(back) == std::bit_cast<std::uint32_t>(master));
            REQUIRE(split.weight.bits == BFloat16(master).bits + (is_tie_down(master) ? 1 : 0));
        }
    }
    const float largest = std::numeric_limits<float>::max();
    CHECK(std::isinf(static_cast<float>(split_weight(largest).weight)));
    CHECK(join_weight(split_weight(largest).weight, split_weight(largest).remainder) == largest);
}

TEST_CASE_TEMPLATE("without a learning rate the weights keep their bits", Set, OOMB_KERNEL_SETS) {
    using A = Accumulator<typename Set::Storage>;
    AdamWRun<Set> run({-0.0, 0.0, 0.1, -3.0});
    typename Set::template Buffer<A> gradient(narrow<A>({-1, 1, 2, 3}));
    auto args = run.args(1, gradient);
    args.weight_decay = 0.1;
    Set::adamw_step(args);
    CHECK(std::signbit(run.weights.values()[0]));
    CHECK(std::signbit(double(load(run.copy.values()[0]))));
    CHECK(run.weights.values() == narrow<A>({-0.0, 0.0, 0.1, -3.0}));
    CHECK(run.m.values()[3] != A(0));
}

TEST_CASE_TEMPLATE("without a learning rate split weights keep their bits", Set, OOMB_KERNEL_SETS) {
    if constexpr (std::is_same_v<typename Set::Storage, BFloat16>) {
        const std::vector<float> masters = {-0.0F, 0.0F, 0.1F, -3.0F};
        SplitRun<Set> run(masters);
        typename Set::template Buffer<float> gradient({-1, 1, 2, 3});
        Set::adamw_step(AdamWStep<BFloat16>{.gradient = gradient.data(),
                                            .m = run.m.data(),
                                            .v = run.v.data(),
                                            .weights_copy = run.weights.data(),
                                            .remainders = run.remainders.data(),
                                            .count = 4,
                                            .weight_decay = 0.1});
        CHECK(bits_of(joined(run.weights.values(), run.remainders.values())) == bits_of(masters));
        CHECK(run.m.values()[3] != 0.0F);
    }
}

TEST_CASE_TEMPLATE("sum of squares", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    const auto values = random_values<T>(10'000, 1);
    double expected = 0;
    for (const double value : values) {
        expected += value * value;
    }
    typename Set::template Buffer<T> buffer(narrow<T>(values));
    CHECK(Set::sum_of_squares(buffer.data(), 10'000) == doctest::Approx(expected).epsilon(1e-12));
    CHECK(Set::sum_of_squares(buffer.data(), 0) == 0.0);
    typename Set::template Buffer<T> large(narrow<T>({0x1p100, 0x1p100}));  // squares overflow a float
    CHECK(Set::sum_of_squares(large.data(), 2) == 0x1p201);
}

TEST_CASE_TEMPLATE("the first value that is not finite is found", Set, OOMB_KERNEL_SETS) {
    using T = typename Set::Storage;
    auto values = random_values<T>(10'000, 1);
    const auto find = [&] {
        typename Set::template Buffer<T> buffer(narrow<T>(values));
        return Set::find_non_finite(buffer.data(), 10'000);
    };
    CHECK(find() == -1);
    values[9'999] = std::numeric_limits<double>::infinity();
    CHECK(find() == 9'999);
    values[4'096] = std::numeric_limits<double>::quiet_NaN();
    CHECK(find() == 4'096);
    values[3] = -std::numeric_limits<double>::infinity();
    CHECK(find() == 3);
}

}  // namespace
}  // namespace oomb::kernels::test
