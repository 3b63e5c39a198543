#pragma once
// What is worth a line beside a plan that can be carried out.

#include <string>
#include <vector>

#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

// One sentence each for numbers in the flags that pass what there is of it in this run, and count as all:
// --hbm-pages, --kept-pages, --held-chunks, --top-k.
std::vector<std::string> remarks_on(const schedule::Plan& plan);

}  // namespace oomb::simulator
