#pragma once
// CPU reference of kernels/page_selection.hpp: synchronous, threads over OpenMP, bits independent of the number of
// threads. T is double, float or BFloat16, A double or float. Operands that contradict each other throw InternalError.

#include "kernels/page_selection.hpp"

namespace oomb::kernels::cpu {

template <class T>
void page_means(const PageMeans<T>& args);

template <class T>
void page_scores(const PageScores<T>& args);

template <class A>
void select_pages(const SelectPages<A>& args);

void invert_lists(const ListInversion& args);

template <class T>
void page_mass(const PageMass<T>& args);

template <class A>
void page_recall(const PageRecall<A>& args);

}  // namespace oomb::kernels::cpu
