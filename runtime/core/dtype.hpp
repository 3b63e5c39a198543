#pragma once
// Element types of buffers, pages and files.

#include <bit>
#include <cstdint>
#include <string_view>

namespace oomb {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16 };

constexpr std::int64_t bytes_of(DType type) {
    switch (type) {
        case DType::kF64:
            return 8;
        case DType::kF32:
            return 4;
        case DType::kBF16:
        case DType::kF16:
            return 2;
    }
    return 0;
}

// "fp64", "fp32", "bf16", "fp16": the spelling of flags and output.
std::string_view name_of(DType type);
// Inverse of name_of; throws UsageError and lists what is allowed.
DType parse_dtype(std::string_view text);

// bfloat16 storage: the upper half of a float, rounded to nearest even; NaN stays NaN.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    explicit BFloat16(float value) {
        const auto wide = std::bit_cast<std::uint32_t>(value);
        const bool is_nan = (wide & 0x7fffffffU) > 0x7f800000U;
        bits = static_cast<std::uint16_t>(is_nan ? (wide >> 16) | 0x40U : (wide + 0x7fffU + ((wide >> 16) & 1U)) >> 16);
    }
    explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

}  // namespace oomb
