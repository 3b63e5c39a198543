#pragma once
// The program oomb-profile as a function; returns the exit code.

#include <ostream>

namespace oomb::profiler {

int run_profile(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace oomb::profiler
