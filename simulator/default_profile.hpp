#pragma once
// The machine that a time is predicted for where no profile is named.

#include "runtime/core/hardware_profile.hpp"

namespace oomb::simulator {

// hardware/h200_sxm.json as it was when the program was built.
const HardwareProfile& default_profile();

}  // namespace oomb::simulator
