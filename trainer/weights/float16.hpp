#pragma once
// IEEE 754 binary16 storage.

#include <bit>
#include <cstdint>

namespace oomb::trainer {

// Conversions use integers alone, so no flush-to-zero mode of the processor can eat a subnormal.
// Float16 -> float is exact; float -> Float16 rounds to nearest even, and what lies beyond 65504 becomes infinite.
// The payload of a NaN keeps its upper ten bits.
struct Float16 {
    std::uint16_t bits = 0;

    Float16() = default;
    explicit Float16(float value) {
        const auto wide = std::bit_cast<std::uint32_t>(value);
        const auto sign = static_cast<std::uint32_t>((wide >> 16) & 0x8000U);
        bits = static_cast<std::uint16_t>(sign | magnitude(wide & 0x7fffffffU));
    }

    explicit operator float() const {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
        const std::uint32_t exponent = (bits >> 10) & 0x1fU;
        const std::uint32_t mantissa = bits & 0x3ffU;
        if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24, normal as a float
            const float value = static_cast<float>(mantissa) * 0x1p-24F;
            return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
        }
        const std::uint32_t wide_exponent = exponent == 0x1fU ? 0xffU : exponent + 112U;
        return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
    }

  private:
    static constexpr std::uint32_t kInfinity = 0x7c00U;

    static std::uint32_t magnitude(std::uint32_t wide) {
        if (wide > 0x7f800000U) {
            const std::uint32_t payload = (wide >> 13) & 0x3ffU;
            return kInfinity | (payload == 0 ? 0x200U : payload);
        }
        if (wide >= 0x477ff000U) {  // 65520, half way between 65504 and the next power of two
            return kInfinity;
        }
        if (wide >= 0x38800000U) {  // 2^-14, the least normal number
            const std::uint32_t rebiased = wide - 0x38000000U;
            return (rebiased + 0xfffU + ((rebiased >> 13) & 1U)) >> 13;
        }
        if (wide <= 0x33000000U) {  // 2^-25 is a tie with zero, and zero is even
            return 0;
        }
        const std::uint32_t shift = 126U - (wide >> 23);
        const std::uint32_t mantissa = (wide & 0x7fffffU) | 0x800000U;
        const std::uint32_t quotient = mantissa >> shift;
        const std::uint32_t remainder = mantissa & ((1U << shift) - 1U);
        const std::uint32_t half = 1U << (shift - 1U);
        return quotient + ((remainder > half || (remainder == half && (quotient & 1U) != 0)) ? 1U : 0U);
    }
};

}  // namespace oomb::trainer
