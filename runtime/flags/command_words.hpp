#pragma once
// What is wrong with the words of a command line, before any value is read: said in our own words, with what was
// probably meant.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace oomb {

// One line about the first word that is no flag of `app`, takes no value and has one, lacks its value or has an empty
// one, is given twice, or is of the type N (a whole number from 0) or X (a number) by its type name and is none; else
// about the first required flag that is absent. Nothing where all is well, or where --help or --version asks for
// something else. All flags have long names and at most one value; argv[0] is not looked at. Where `app` has positional
// arguments, they take the words that are no flags, as many as they have room for, and all words behind "--".
std::optional<std::string> fault_in_words(const CLI::App& app, int argc, const char* const* argv);

}  // namespace oomb
