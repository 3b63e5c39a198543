#include "trainer/weights/convert.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/core/error.hpp"
#include "trainer/weights/float16.hpp"

namespace oomb::trainer {
namespace {

std::vector<std::uint16_t> all_short_patterns() {
    std::vector<std::uint16_t> patterns(65536);
    for (std::size_t i = 0; i < patterns.size(); ++i) {
        patterns[i] = static_cast<std::uint16_t>(i);
    }
    return patterns;
}

// Value of a 16-bit pattern from the definition of the format: `exponent_bits` 5 is IEEE half, 8 is bfloat16.
double value_of(std::uint16_t bits, int exponent_bits) {
    const int mantissa_bits = 15 - exponent_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (bits & 0x7fff) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) {
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    }
    const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    return sign * std::ldexp(significand, std::max(exponent, 1) - bias - mantissa_bits);
}

std::uint16_t narrowed(double value, DType type) {
    std::uint16_t result = 0;
    convert_bytes(std::as_bytes(std::span(&value, 1)), DType::kF64, std::as_writable_bytes(std::span(&result, 1)),
                  type);
    return result;
}

// Every pair of neighbouring positive finite numbers of a 16-bit format: what lies below their middle rounds down, what
// lies above rounds up, the middle goes to the even pattern. Beyond the largest number the "neighbour" is 2^(max + 1).
void check_rounding(DType type, int exponent_bits) {
    const auto infinity = static_cast<std::uint16_t>(0x7fff & ~((1 << (15 - exponent_bits)) - 1));
    int wrong = 0;
    for (std::uint16_t low = 0; low < infinity; ++low) {
        const auto high = static_cast<std::uint16_t>(low + 1);
        const double low_value = value_of(low, exponent_bits);
        const double step = low_value - (low == 0 ? -value_of(1, exponent_bits) : value_of(low - 1, exponent_bits));
        const double high_value = high == infinity ? low_value + step : value_of(high, exponent_bits);
        const double middle = (low_value + high_value) / 2;
        const std::uint16_t even = (low & 1) == 0 ? low : high;
        wrong += narrowed(middle, type) != even;
        wrong += narrowed(std::nextafter(middle, 0.0), type) != low;
        wrong += narrowed(std::nextafter(middle, 1e300), type) != high;
        wrong += narrowed(-middle, type) != (even | 0x8000);
    }
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every 16-bit pattern has the value of its definition") {
    const std::vector<std::uint16_t> patterns = all_short_patterns();
    for (const auto& [type, exponent_bits] : {std::pair(DType::kF16, 5), std::pair(DType::kBF16, 8)}) {
        std::vector<double> values(patterns.size());
        convert(std::as_bytes(std::span(patterns)), type, std::span(values));
        int wrong = 0;
        for (std::size_t i = 0; i < patterns.size(); ++i) {
            const double expected = value_of(patterns[i], exponent_bits);
            const bool same = std::isnan(expected)
                                  ? std::isnan(values[i])
                                  : std::bit_cast<std::uint64_t>(values[i]) == std::bit_cast<std::uint64_t>(expected);
            wrong += !same;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("16 bits to float and back is the same pattern") {
    const std::vector<std::uint16_t> patterns = all_short_patterns();
    for (const auto& [type, exponent_bits] : {std::pair(DType::kF16, 5), std::pair(DType::kBF16, 8)}) {
        std::vector<float> values(patterns.size());
        std::vector<std::uint16_t> back(patterns.size());
        convert(std::as_bytes(std::span(patterns)), type, std::span(values));
        const std::int64_t overflows =
            convert_bytes(std::as_bytes(std::span(values)), DType::kF32, std::as_writable_bytes(std::span(back)), type);
        CHECK(overflows == 0);
        int wrong = 0;
        for (std::size_t i = 0; i < patterns.size(); ++i) {
            // A NaN may become quiet on the way, but stays a NaN of the same sign.
            const bool is_nan = std::isnan(value_of(patterns[i], exponent_bits));
            const bool same_nan =
                std::isnan(value_of(back[i], exponent_bits)) && ((back[i] ^ patterns[i]) & 0x8000) == 0;
            wrong += is_nan ? !same_nan : back[i] != patterns[i];
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("narrowing rounds once, to nearest even, also from float64") {
    check_rounding(DType::kF16, 5);
    check_rounding(DType::kBF16, 8);
}

TEST_CASE("float to bfloat16 agrees with the type of the core") {
    std::mt19937 random(1);
    std::vector<float> values(100'000);
    for (float& value : values) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    }
    std::vector<BFloat16> narrow(values.size());
    convert(std::as_bytes(std::span(values)), DType::kF32, std::span(narrow));
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        wrong += narrow[i].bits != BFloat16(values[i]).bits;
    }
    CHECK(wrong == 0);
}

TEST_CASE("finite values without a finite counterpart are counted") {
    const std::vector<float> values{65519.0F, 65520.0F, -1e38F, std::numeric_limits<float>::infinity(), NAN};
    std::vector<std::uint16_t> narrow(values.size());
    const auto source = std::as_bytes(std::span(values));
    const auto target = std::as_writable_bytes(std::span(narrow));
    CHECK(convert_bytes(source, DType::kF32, target, DType::kF16) == 2);
    CHECK(narrow[0] == 0x7bff);
    CHECK(narrow[1] == 0x7c00);
    CHECK(narrow[2] == 0xfc00);
    CHECK(convert_bytes(source, DType::kF32, target, DType::kBF16) == 0);
}

TEST_CASE("sources need no alignment, equal types are copied, counts must match") {
    const std::vector<double> values{1.5, -2.25, std::numeric_limits<double>::denorm_min()};
    std::vector<std::byte> shifted(1 + values.size() * sizeof(double));
    std::memcpy(shifted.data() + 1, values.data(), values.size() * sizeof(double));
    const auto source = std::span<const std::byte>(shifted).subspan(1);
    std::vector<double> copy(3);
    CHECK(convert(source, DType::kF64, std::span(copy)) == 0);
    CHECK(copy == values);
    std::vector<float> narrow(3);
    convert(source, DType::kF64, std::span(narrow));
    CHECK(narrow == std::vector<float>{1.5F, -2.25F, 0.0F});
    std::vector<float> short_target(2);
    CHECK_THROWS_AS(convert(source, DType::kF64, std::span(short_target)), InternalError);
    CHECK_THROWS_AS(convert(source.subspan(1), DType::kF64, std::span(narrow)), InternalError);
}

TEST_CASE("what threads share out is what one would convert, to the last element") {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> uniform(-3.4028e38, 3.4028e38);  // a few beyond bf16
    std::vector<float> values((std::size_t{5} << 19) + 3);
    for (float& value : values) {
        value = static_cast<float>(uniform(random));
    }
    std::vector<BFloat16> together(values.size()), one_by_one(values.size());
    const std::int64_t overflows = convert(std::as_bytes(std::span(values)), DType::kF32, std::span(together));
    std::int64_t expected = 0;
    constexpr std::size_t kPart = 1000;  // below what is shared out
    for (std::size_t first = 0; first < values.size(); first += kPart) {
        const std::size_t count = std::min(kPart, values.size() - first);
        expected += convert(std::as_bytes(std::span(values).subspan(first, count)), DType::kF32,
                            std::span(one_by_one).subspan(first, count));
    }
    CHECK(overflows == expected);
    CHECK(overflows > 0);
    CHECK(std::memcmp(together.data(), one_by_one.data(), together.size() * sizeof(BFloat16)) == 0);
    std::vector<BFloat16> copied(values.size());
    convert(std::as_bytes(std::span(together)), DType::kBF16, std::span(copied));
    CHECK(std::memcmp(together.data(), copied.data(), copied.size() * sizeof(BFloat16)) == 0);
}

}  // namespace oomb::trainer
