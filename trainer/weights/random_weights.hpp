#pragma once
// Weights for training from scratch.

#include <cstdint>
#include <span>

#include "trainer/weights/parameters.hpp"

namespace oomb::trainer {

// Standard deviation of embedding, head and linear weights: the usual `initializer_range` of the families read here.
inline constexpr double kInitialStd = 0.02;

// Values of elements [first_element, first_element + values.size()) of a parameter: normal with mean 0 and kInitialStd,
// norms 1, biases 0. Each value is a function of (seed, parameter name, element) alone, so neither the order of
// parameters nor threads nor the size of pieces matters. T is float or double; the float is the double rounded.
// Random bits are those of runtime/core/splitmix.hpp, normals by Box and Muller. Uses the threads of OpenMP.
template <class T>
void random_values(const ParameterInfo& parameter, std::uint64_t seed, std::span<T> values,
                   std::int64_t first_element = 0);

}  // namespace oomb::trainer
