#pragma once
// The numbers in a trace mean something only with these names, which is why its header has them.

#include <string>
#include <vector>

namespace oomb::trace {

std::vector<std::string> engine_names();  // by schedule::Engine
std::vector<std::string> kind_names();    // by schedule::Kind

// A file with these names can be read by a program that knows those: new ones come last, so the names of an older
// program are the first of a later one's.
bool are_first_of(const std::vector<std::string>& names, const std::vector<std::string>& known);

}  // namespace oomb::trace
