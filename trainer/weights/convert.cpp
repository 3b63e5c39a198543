#include "trainer/weights/convert.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "runtime/core/error.hpp"
#include "trainer/weights/float16.hpp"

namespace oomb::trainer {
namespace {

template <class T>
constexpr bool kIsShort = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// Rounds to a float whose last bit is set when anything was lost. Rounding that float to at most 22 bits gives what
// rounding `value` itself would give; rounding twice to nearest would not at ties.
float round_to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    if (std::isnan(value) || static_cast<double>(nearest) == value) {
        return nearest;
    }
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    if (std::abs(static_cast<double>(nearest)) > std::abs(value)) {
        --bits;  // towards zero, also from infinity to the largest float
    }
    return std::bit_cast<float>(bits | 1U);
}

template <class To, class From>
To converted(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (kIsShort<From>) {
        return converted<To>(static_cast<float>(value));
    } else if constexpr (kIsShort<To> && std::is_same_v<From, double>) {
        return To(round_to_odd(value));
    } else {
        return static_cast<To>(value);
    }
}

// Every value of From is a value of To.
template <class To, class From>
constexpr bool kIsExact = !kIsShort<To> && sizeof(To) > sizeof(From);

template <class T>
bool is_finite(T value) {
    return std::isfinite(converted<double>(value));
}

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements that a thread takes at a time

template <class To, class From>
std::int64_t convert_piece(const std::byte* source, std::byte* target, std::int64_t elements) {
    if constexpr (std::is_same_v<To, From>) {
        std::memcpy(target, source, elements * sizeof(To));
        return 0;
    }
    std::int64_t overflows = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
        From in;
        std::memcpy(&in, source + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
        const To out = converted<To>(in);
        std::memcpy(target + i * static_cast<std::int64_t>(sizeof(To)), &out, sizeof(To));
        if constexpr (!kIsExact<To, From>) {
            overflows += (is_finite(in) && !is_finite(out)) ? 1 : 0;
        }
    }
    return overflows;
}

template <class To, class From>
std::int64_t convert_all(const std::byte* source, std::byte* target, std::int64_t elements) {
    const std::int64_t pieces = (elements + kPiece - 1) / kPiece;
    std::int64_t overflows = 0;
#pragma omp parallel for schedule(static) reduction(+ : overflows) if (pieces > 1)
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t first = piece * kPiece;
        overflows += convert_piece<To, From>(source + first * static_cast<std::int64_t>(sizeof(From)),
                                             target + first * static_cast<std::int64_t>(sizeof(To)),
                                             std::min(kPiece, elements - first));
    }
    return overflows;
}

// Calls `visitor` with a value of the C++ type that stores `type`.
template <class Visitor>
std::int64_t with_type(DType type, Visitor visitor) {
    switch (type) {
        case DType::kF64:
            return visitor(double{});
        case DType::kF32:
            return visitor(float{});
        case DType::kBF16:
            return visitor(BFloat16{});
        case DType::kF16:
            return visitor(Float16{});
    }
    fail<InternalError>("unknown element type {}", static_cast<int>(type));
}

template <class T>
constexpr DType kTypeOf = std::is_same_v<T, double>  ? DType::kF64
                          : std::is_same_v<T, float> ? DType::kF32
                                                     : DType::kBF16;

}  // namespace

std::int64_t convert_bytes(std::span<const std::byte> source, DType source_type, std::span<std::byte> target,
                           DType target_type) {
    const auto elements = static_cast<std::int64_t>(source.size()) / bytes_of(source_type);
    require(elements * bytes_of(source_type) == static_cast<std::int64_t>(source.size()) &&
                elements * bytes_of(target_type) == static_cast<std::int64_t>(target.size()),
            "conversion from {} bytes to {} bytes is not element for element", source.size(), target.size());
    if (elements == 0) {
        return 0;
    }
    return with_type(source_type, [&](auto from) {
        return with_type(target_type, [&](auto to) {
            return convert_all<decltype(to), decltype(from)>(source.data(), target.data(), elements);
        });
    });
}

template <class T>
std::int64_t convert(std::span<const std::byte> source, DType source_type, std::span<T> target) {
    return convert_bytes(source, source_type, std::as_writable_bytes(target), kTypeOf<T>);
}

template std::int64_t convert(std::span<const std::byte>, DType, std::span<float>);
template std::int64_t convert(std::span<const std::byte>, DType, std::span<double>);
template std::int64_t convert(std::span<const std::byte>, DType, std::span<BFloat16>);

}  // namespace oomb::trainer
