#pragma once
// The numbers in a trace mean something only with these names, which is why its header has them.

#include <string>
#include <vector>

namespace oomb::trace {

std::vector<std::string> engine_names();  // by schedule::Engine
std::vector<std::string> kind_names();    // by schedule::Kind

}  // namespace oomb::trace
