#pragma once
// The program oomb-train as a function; returns the exit code.

namespace oomb::trainer {

int run_train(int argc, const char* const* argv);

}  // namespace oomb::trainer
