#pragma once
// What a backend carries out once before the first step, so that no step has to choose an algorithm, build a plan of a
// library's or load a kernel.

#include <vector>

#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/plan.hpp"
#include "trainer/model/parameter_layout.hpp"

namespace oomb::trainer {

// One compute operation of every shape that the schedule of a step has, for sequences of the plan's context, in program
// order and with waits for nothing. Operations of one shape give kernels and libraries the same sizes, types, strides
// and alignments (modulo 256 bytes); only addresses, positions and numbers differ. Shards of the optimizer are of one
// shape when the same types and alignments occur among their parts, however many and long these are. Pages lie in
// frames of their pool in descending order: not in order, so that they are gathered. Lists name as many pages as they
// may. Takes some 50 ns for each operation of the schedule.
std::vector<issue::IssuedOperation> rehearsal_of(const schedule::Plan& plan, const ParameterLayout& layout);

}  // namespace oomb::trainer
