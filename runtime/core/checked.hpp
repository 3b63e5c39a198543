#pragma once
// 64-bit arithmetic on sizes that come from files and flags: overflow is an error, never a wrapped number.

#include <cstdint>
#include <string_view>

#include "runtime/core/error.hpp"

namespace oomb {

// Both throw UnsupportedError when the result leaves the range of std::int64_t; `what` names the quantity.
inline std::int64_t multiply_checked(std::int64_t a, std::int64_t b, std::string_view what) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
        fail<UnsupportedError>("{}: {} x {} passes 2^63", what, a, b);
    }
    return result;
}

inline std::int64_t add_checked(std::int64_t a, std::int64_t b, std::string_view what) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
        fail<UnsupportedError>("{}: {} + {} passes 2^63", what, a, b);
    }
    return result;
}

}  // namespace oomb
