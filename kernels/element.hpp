#pragma once
// Storage types of kernel operands and the type that arithmetic on them runs in.
// Storage T is double (oracle mode), float, or BFloat16; sums and functions run in Accumulator<T>.

#include <type_traits>

#include "runtime/core/dtype.hpp"

namespace oomb::kernels {

// double for double, float for float and BFloat16.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<std::remove_const_t<T>, double>, double, float>;

// One element widened to its accumulator type; exact.
template <class T>
inline Accumulator<T> load(const T& element) {
    return static_cast<Accumulator<T>>(element);
}

// One accumulator rounded to nearest even into storage.
template <class T>
inline void store(T& element, Accumulator<T> value) {
    element = static_cast<T>(value);
}

}  // namespace oomb::kernels
