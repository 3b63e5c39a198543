#pragma once
// The program oomb-train eval as a function; returns the exit code.

namespace oomb::trainer {

// `argv[1]` is "eval".
int run_eval(int argc, const char* const* argv);

}  // namespace oomb::trainer
