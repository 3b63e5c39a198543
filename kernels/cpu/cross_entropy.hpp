#pragma once
// CPU reference of kernels/cross_entropy.hpp. T is double, float or BFloat16. A target outside the vocabulary throws
// InternalError before anything is written. Row losses are added in ascending order in float64.

#include "kernels/cross_entropy.hpp"

namespace oomb::kernels::cpu {

template <class T>
CrossEntropySum cross_entropy(const CrossEntropyTile<T>& args);

}  // namespace oomb::kernels::cpu
