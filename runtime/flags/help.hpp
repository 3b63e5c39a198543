#pragma once
// The text of --help, laid out here so that it does not change with the version of the command line library.

#include <CLI/CLI.hpp>
#include <string>

namespace oomb {

// Usage with the required flags, the description, each group of flags in the order of its first flag, the footer.
std::string help_text(const CLI::App& app);

}  // namespace oomb
