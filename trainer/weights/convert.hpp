#pragma once
// Conversion between the stored types of weights and the types that are computed with.

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/core/dtype.hpp"

namespace oomb::trainer {

// Converts every element of `source` (row-major, little-endian, any alignment) to `target_type`. Widening is exact,
// narrowing rounds once to nearest even (also from float64 to a 16-bit type), equal types are copied bit for bit.
// Returns how many finite values became infinite because the target type has no such number.
// Throws InternalError unless both spans hold the same whole number of elements. The spans must not overlap. Large ones
// are shared out among the threads of OpenMP; the result does not depend on them.
std::int64_t convert_bytes(std::span<const std::byte> source, DType source_type, std::span<std::byte> target,
                           DType target_type);

// The same for a typed target: T is float, double or BFloat16.
template <class T>
std::int64_t convert(std::span<const std::byte> source, DType source_type, std::span<T> target);

}  // namespace oomb::trainer
