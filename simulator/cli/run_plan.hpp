#pragma once
// oomb-plan: what a training run needs in every tier of memory, how long a step takes, and what to set.

#include <ostream>

namespace oomb::simulator {

// The whole program; without a sub-command it is "fit". The table goes to `out`; faults, warnings and what to change to
// `err`. Returns the exit code: 0 fits or found, 1 failed (a file that cannot be read or written), 2 wrong usage, 3
// does not fit. Throws nothing.
int run_plan(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace oomb::simulator
