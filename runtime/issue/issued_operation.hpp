#pragma once
// An operation ready to run: its pages have frames, and it knows whom to wait for.

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/issue/page_lists.hpp"
#include "runtime/paging/residency.hpp"
#include "runtime/schedule/operation.hpp"

namespace oomb::issue {

struct IssuedOperation {
    schedule::Operation operation;
    std::uint64_t number = 0;           // in program order, from 1
    Ticket ticket = 0;                  // on operation.engine
    Tickets waits{};                    // other engines only, without waits that follow from others
    std::vector<paging::Grant> grants;  // parallel to operation.requests
    // Where a request is `listed`: the lists of the operation's query pages. The request's pages are lists->pages.
    std::shared_ptr<const PageLists> lists;
};

class IssuedSink {
  public:
    virtual ~IssuedSink() = default;
    virtual void take(IssuedOperation operation) = 0;
};

}  // namespace oomb::issue
