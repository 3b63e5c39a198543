#pragma once
// What the command line of oomb-plan best leaves to the search.

#include <CLI/CLI.hpp>
#include <vector>

#include "simulator/search/freedom.hpp"

namespace oomb::simulator {

// A flag that is not given, or auto, is free. `run` is what the command line says.
Freedom freedom_of(const CLI::App& app, const RunConfiguration& run);

// The types of gradients and master weights to search, those asked for first.
std::vector<RunConfiguration> types_of(const CLI::App& app, const RunConfiguration& run, bool search);

}  // namespace oomb::simulator
