#pragma once
// Which regions the operations around a linear layer or a norm read and write: the same on every device.

#include "runtime/schedule/operation.hpp"
#include "trainer/weights/parameters.hpp"

namespace oomb::trainer {

// A linear layer in backward: gradient at its output, its input, gradient at its input.
struct LinearRegions {
    schedule::RegionName output_gradient, input, input_gradient;
    ParameterKind weight;
    bool in_layer;  // false: the head
};
LinearRegions linear_regions(schedule::Kind kind);

// A norm's input and output in forward; in backward its output's gradient and its input.
struct NormRegions {
    schedule::RegionName input, output, output_gradient;
    ParameterKind weight;
    bool in_layer;  // false: the final norm, which works on row tiles
};
NormRegions norm_regions(schedule::Kind kind);

}  // namespace oomb::trainer
