#pragma once
// kernels/page_selection.hpp on a CUDA device; see launch.hpp for what entry points promise. T is double, float or
// BFloat16, A double or float. Frames and slabs are device memory.

#include <cstddef>

#include "kernels/cuda/launch.hpp"
#include "kernels/page_selection.hpp"

namespace oomb::kernels::cuda {

// The bits of the CPU's.
template <class T>
void page_means(const PageMeans<T>& args, cudaStream_t stream);

// Sums of each group's queries, in a number of Accumulator<T> or two of BFloat16, and the logarithm of each softmax's
// denominator.
template <class T>
std::size_t page_scores_workspace_bytes(std::int64_t tokens, std::int64_t kv_heads, std::int64_t head_dim);

// BFloat16 with head_dim 64 or 128 and a positive scale runs on tensor cores, with a sum of queries split in two
// bfloat16: an exponent is off by 2^-18 of the sum of its terms' magnitudes, beside the rounding of fp32 sums. head_dim
// is 256 at most. `workspace` lies on 16 bytes. Query pages times pages is below 2^31.
template <class T>
void page_scores(const PageScores<T>& args, void* workspace, cudaStream_t stream);

template <class A>
void select_pages(const SelectPages<A>& args, cudaStream_t stream);

void invert_lists(const ListInversion& args, cudaStream_t stream);

// Products and sums in Accumulator<T>, on no tensor cores.
template <class T>
void page_mass(const PageMass<T>& args, cudaStream_t stream);

// `budgets` are host memory, read before the call returns; kMostRecallBudgets at most.
template <class A>
void page_recall(const PageRecall<A>& args, cudaStream_t stream);

}  // namespace oomb::kernels::cuda
