#pragma once
// What the programs have in common at their outer edge: help, version, faults in the command line, exit codes.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "runtime/core/error.hpp"

namespace oomb {

// Gives `app` the flags --help and --version and the layout of its help: usage, description, groups, then `footer` as
// it stands. Call it before further flags are added.
void prepare_command_line(CLI::App& app, const std::string& footer);

// Parses. Empty: go on. A value: the program is to end with this code; help or version went to `out`, or one line about
// what is wrong to `err`.
std::optional<ExitCode> parse_command_line(CLI::App& app, int argc, const char* const* argv, std::ostream& out,
                                           std::ostream& err);

// Runs the body of a program. An exception ends it with one line on `err`, "<program>: <message>", and its exit code.
ExitCode run_guarded(const std::string& program, std::ostream& err, const std::function<ExitCode()>& body);

}  // namespace oomb
