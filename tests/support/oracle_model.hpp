#pragma once
// The slow, obviously right training step: the whole sequence at once, LibTorch autograd in float64.

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/executor/executor.hpp"
#include "trainer/model/parameter_layout.hpp"

namespace oomb::testing {

struct OracleResult {
    double loss = 0.0;
    std::vector<double> gradients;  // in the order of the layout
};

// Loss summed over all valid targets of all sequences, divided once by their number.
OracleResult oracle_step(const ModelShape& shape, const trainer::ParameterLayout& layout,
                         const std::vector<double>& weights, std::span<const trainer::SequenceView> sequences);

}  // namespace oomb::testing
