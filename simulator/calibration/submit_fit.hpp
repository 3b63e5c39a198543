#pragma once
// What the host takes to hand a kernel to the GPU.

#include <string>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

// A step of short operations that was not traced.
struct UntracedStep {
    schedule::Plan plan;
    double seconds = 0.0;
};
// The profile's `submit` with which the step is predicted as it was; 0 where it takes as long without. All other
// numbers are right already. FileError where a millisecond is not enough.
void fit_submit(const UntracedStep& step, const std::string& source, HardwareProfile& profile);

}  // namespace oomb::simulator
