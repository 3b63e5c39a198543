#pragma once
// CPU reference of kernels/attention.hpp: synchronous, threads over OpenMP, bits independent of the number of threads.
// T is double, float or BFloat16. Operands that contradict each other (heads, page sizes) throw InternalError.

#include "kernels/attention.hpp"

namespace oomb::kernels::cpu {

template <class T>
void attention_forward(const AttentionForward<T>& args);

// (A, P) is (double, double), (float, float) or (float, BFloat16).
template <class A, class P>
void attention_merge(const AttentionMerge<A, P>& args);

template <class T>
void attention_delta(const AttentionDelta<T>& args);

template <class T>
void attention_backward(const AttentionBackward<T>& args);

}  // namespace oomb::kernels::cpu
