#pragma once
// Flags of a run that take each other's effect away.

#include "runtime/flags/run_flags.hpp"

namespace oomb {

// Throws UsageError for a flag that nothing would read beside another one, and says which of the two to change. What
// only needs the values as typed; what depends on numbers is in validate().
void refuse_contradictions(const RunFlags& flags);

}  // namespace oomb
