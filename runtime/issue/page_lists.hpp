#pragma once
// Which pages attention over lists reads: known when the selection has run, asked for when an operation is issued.

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/issue/tickets.hpp"

namespace oomb::issue {

// Of consecutive query pages of one layer.
struct PageLists {
    std::int64_t length = 0;          // pages of each list
    std::vector<std::int32_t> lists;  // [query pages, length], each ascending
    std::vector<std::int32_t> pages;  // all that they name, ascending, each once
};

// Of the query pages from `first` on, `found` as a source gives them, with what they name. Throws InternalError unless
// there are `count` ascending ones of `length` pages, all below `history`.
PageLists checked_lists(std::vector<std::int32_t> found, std::int64_t layer, std::int64_t first, std::int64_t count,
                        std::int64_t length, std::int64_t history);

// The lists with each page's place among `pages` in its stead.
std::vector<std::int32_t> places_of(const PageLists& lists);

// The lists of `count` query pages of `layer` from page `first` of the sequence on.
struct AskedLists {
    std::int64_t layer = 0, first = 0, count = 0;
    std::int64_t length = 0;   // pages that each names,
    std::int64_t history = 0;  // all below this one
    Ticket stored = 0;         // of the device-to-host engine, with which select_pages' choice reached the host
};

class PageListSource {
  public:
    virtual ~PageListSource() = default;
    // Lists of the query pages [first, first + count) of the sequence, of `layer`: [count, K]. Blocks until ticket
    // `stored` of the device-to-host engine, with which select_pages' choice reached the host, is done.
    virtual std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                                 Ticket stored) = 0;
    // The same with what they name, as checked_lists(). A source that is asked again and again may keep it.
    virtual std::shared_ptr<const PageLists> checked(const AskedLists& asked) {
        return std::make_shared<const PageLists>(
            checked_lists(page_lists(asked.layer, asked.first, asked.count, asked.stored), asked.layer, asked.first,
                          asked.count, asked.length, asked.history));
    }
};

}  // namespace oomb::issue
