#pragma once
// The keys that a chunk's queries see in one layer, in the parts in which attention reads them: the history, then the
// chunk itself. docs/local-attention.md has the picture.

#include <array>
#include <vector>

#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

// Consecutive keys from a page's first token on, [first, first + tokens), and those of the chunk's queries that see any
// of them: consecutive, too. A query at position p sees of them each j <= p, with a sliding window those with
// j > p - sliding_window. Each query sees at least one.
struct KeyPart {
    std::int64_t first = 0, tokens = 0;
    std::int64_t first_query = 0, queries = 0;
    std::int64_t sliding_window = 0;  // 0: none of these queries is beyond its reach
};

// Without a sliding window: the history in windows of RunConfiguration::window_tokens, and the chunk. With one, where
// it reaches less far back than the sequence goes: the sinks, the keys that some queries no longer see, and the keys
// that all see, each cut into such windows. Where the chunk is longer than the sliding window it is masked, too, but
// for sinks in it. Pages that no query sees are in no part.
class KeyParts {
  public:
    KeyParts(const StepShape& step, std::int64_t chunk, std::int64_t layer);

    std::int64_t history() const;                   // number of parts
    KeyPart history_part(std::int64_t part) const;  // ascending
    std::int64_t own() const { return first_ < own_sinks_end_ && own_sinks_end_ < end_ ? 2 : 1; }
    KeyPart own_part(std::int64_t part) const;

    // All of the history is seen by all queries.
    bool whole() const { return segments_[2].first == 0; }
    // Pages of the history that are in a part: [0, sink_pages) and [first_page, the chunk's first).
    std::int64_t sink_pages() const { return segments_[0].end / page_tokens_; }
    std::int64_t first_page() const { return segments_[1].first / page_tokens_; }
    std::int64_t history_pages() const { return sink_pages() + first_ / page_tokens_ - first_page(); }
    std::int64_t longest_tokens() const;  // keys of the longest part of the history

  private:
    struct Segment {
        std::int64_t first = 0, end = 0;
    };
    KeyPart part_of(std::int64_t first, std::int64_t end) const;

    std::int64_t window_, page_tokens_, cut_tokens_;
    std::int64_t first_, end_;         // of the chunk
    std::int64_t own_sinks_end_;       // keys of the chunk before it are seen by all later queries
    std::array<Segment, 3> segments_;  // of the history, one behind the other but for a gap after the first: sinks,
                                       // keys that some queries see, keys that all see
};

// Consecutive layers whose attention reads the same parts.
struct LayersAlike {
    std::int64_t first = 0, count = 0;
};
std::vector<LayersAlike> layers_alike(const StepShape& step);

// Most keys that one attention operation reads of the history, in any chunk and layer.
std::int64_t longest_history_part(const StepShape& step);
// ... or of a chunk.
std::int64_t longest_key_part(const StepShape& step);
// Somewhere a chunk's keys are in more than one part, so that parts are merged.
bool merges_parts(const StepShape& step);

}  // namespace oomb::schedule
