#pragma once
// What a step asks of its pages, in program order and without its operations: food for the residency state machine.

#include <memory>
#include <vector>

#include "runtime/issue/page_lists.hpp"
#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

struct PageRequest {
    enum class Kind : std::uint8_t {
        kUse,        // pages are used, born, written back or released
        kFetch,      // pages are brought to HBM for the use that follows
        kSelection,  // top-K: the lists of a chunk are made for `pages.layer`; nobody knew them before
    };
    Kind kind = Kind::kUse;
    PageUse use = PageUse::kRead;
    PageSet pages;
    std::shared_ptr<const issue::PageLists> lists;  // owns pages.list
};

// A sequence as long as planned, without kept activations. `lists` may be null where the step has none. Memory grows
// with the lists, four bytes per page that a group names. Throws UnsupportedError where the requests name more than
// kMostRequestedPages pages in all.
std::vector<PageRequest> page_requests(const schedule::Plan& plan, issue::PageListSource* lists);

inline constexpr std::int64_t kMostRequestedPages = 100'000'000;

}  // namespace oomb::simulator
