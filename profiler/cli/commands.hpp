#pragma once
// The commands of oomb-profile, and how one is called.

#include <ostream>
#include <string>

#include "runtime/core/error.hpp"

namespace oomb::profiler {

struct Call {
    std::string program;  // "oomb-profile report"
    int argc;
    const char* const* argv;
    std::ostream& out;
    std::ostream& err;
};

ExitCode run(const Call& call);            // starts a program with the recorder in it; exit code: see run.cpp
ExitCode report(const Call& call);         // shows a profile
ExitCode compare_files(const Call& call);  // holds one against a trace

}  // namespace oomb::profiler
