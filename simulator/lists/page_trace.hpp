#pragma once
// The lists of top-K pages that a run recorded (docs/trace-format.md), for one of its sequences.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/issue/page_lists.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

// The run that the lists are of.
struct ListedRun {
    std::int64_t layers = 0;
    std::int64_t context_tokens = 0, chunk_tokens = 0, page_tokens = 0;
    std::int64_t top_k = 0;

    std::int64_t pages() const { return (context_tokens + page_tokens - 1) / page_tokens; }
    std::int64_t pages_per_chunk() const { return chunk_tokens / page_tokens; }
    // Pages before the chunk of a query page: those that its list may name.
    std::int64_t history_of(std::int64_t query_page) const {
        return query_page / pages_per_chunk() * pages_per_chunk();
    }
    std::int64_t first_listed_page() const { return (top_k / pages_per_chunk() + 1) * pages_per_chunk(); }
};
ListedRun listed_run(const schedule::Plan& plan);  // of a plan that selects

struct PageTrace {
    std::string path;
    std::int64_t step = 0, sequence = 0;
    ListedRun run;
    std::vector<std::int32_t> lists;  // [layers, pages with lists, top_k]; -1 where a broken-off run left none
    bool complete = false;

    // Ascending; empty where there is none.
    std::span<const std::int32_t> list(std::int64_t layer, std::int64_t query_page) const;
};

// Of the sequences in the trace the last whole one, else the fullest. Throws FileError: no trace, no lists in it, lists
// that the run of its header cannot have.
PageTrace read_page_trace(const std::filesystem::path& path);

// The lists as a source for `plan`, whose run must be the recorded one: UsageError names the flag that differs, or says
// that lists are missing. `trace` outlives the source.
std::unique_ptr<issue::PageListSource> recorded_lists(const PageTrace& trace, const schedule::Plan& plan);

}  // namespace oomb::simulator
