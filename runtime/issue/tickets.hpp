#pragma once
// What an operation waits for.

#include <array>
#include <cstdint>

#include "runtime/schedule/operation.hpp"

namespace oomb::issue {

// The n-th operation issued to an engine has ticket n, from 1. Engines are first in, first out, so "ticket n of engine
// e is done" says that all before it are done too: one number per engine is all that an operation has to wait for.
using Ticket = std::uint64_t;
using Tickets = std::array<Ticket, schedule::kEngines>;  // by engine; 0 = nothing

}  // namespace oomb::issue
