#pragma once
// oomb-plan: what a training run needs in every tier of memory and how long a step takes, before it starts.

#include <ostream>

namespace oomb::simulator {

// The whole program. The table goes to `out`; faults, warnings and what to change to `err`. Returns the exit code:
// 0 fits, 1 failed (a file that cannot be read or written), 2 wrong usage, 3 does not fit. Throws nothing.
int run_plan(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace oomb::simulator
