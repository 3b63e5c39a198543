#pragma once
// An operation ready to run: its pages have frames, and it knows whom to wait for.

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/paging/residency.hpp"
#include "runtime/schedule/operation.hpp"

namespace oomb::issue {

// The n-th operation issued to an engine has ticket n, from 1. Engines are first in, first out, so "ticket n of engine
// e is done" says that all before it are done too: one number per engine is all that an operation has to wait for.
using Ticket = std::uint64_t;
using Tickets = std::array<Ticket, schedule::kEngines>;  // by engine; 0 = nothing

struct IssuedOperation {
    schedule::Operation operation;
    std::uint64_t number = 0;           // in program order, from 1
    Ticket ticket = 0;                  // on operation.engine
    Tickets waits{};                    // other engines only, without waits that follow from others
    std::vector<paging::Grant> grants;  // parallel to operation.requests
};

class IssuedSink {
  public:
    virtual ~IssuedSink() = default;
    virtual void take(IssuedOperation operation) = 0;
};

}  // namespace oomb::issue
