#include "runtime/schedule/key_parts.hpp"

namespace oomb::schedule {

KeyParts::KeyParts(const StepShape& step, std::int64_t chunk, std::int64_t layer)
    : window_(step.sliding_window(layer)),
      page_tokens_(step.run().page_tokens),
      cut_tokens_(step.run().window_tokens),
      first_(step.first_token(chunk)),
      end_(first_ + step.tokens_of(chunk)),
      own_sinks_end_(end_) {
    if (window_ == 0 || end_ <= window_) {
        segments_ = {Segment{0, 0}, {0, 0}, {0, first_}};
        return;
    }
    const std::int64_t sinks = step.run().sinks;
    // The first query sees from first_ + 1 - window_ on, the last one from end_ - window_ on.
    const std::int64_t sinks_end = std::min(sinks, first_);
    const std::int64_t seen = std::max<std::int64_t>(0, first_ + 1 - window_) / page_tokens_ * page_tokens_;
    const std::int64_t seen_by_all = std::min(first_, divide_up(end_ - window_, page_tokens_) * page_tokens_);
    const std::int64_t partly = std::max(seen, sinks_end), wholly = std::max(partly, seen_by_all);
    segments_ = {Segment{0, sinks_end}, {partly, wholly}, {wholly, first_}};
    if (end_ - first_ > window_) {
        own_sinks_end_ = std::clamp(sinks, first_, end_);
    }
}

std::int64_t KeyParts::history() const {
    std::int64_t parts = 0;
    for (const Segment& segment : segments_) {
        parts += divide_up(segment.end - segment.first, cut_tokens_);
    }
    return parts;
}

KeyPart KeyParts::history_part(std::int64_t part) const {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
        const auto [first, end] = segments_[i];
        const std::int64_t parts = divide_up(end - first, cut_tokens_);
        if (part < parts) {
            const std::int64_t begin = first + part * cut_tokens_;
            const std::int64_t tokens = std::min(cut_tokens_, end - begin);
            return i == 1 ? part_of(begin, begin + tokens) : KeyPart{begin, tokens, first_, end_ - first_, 0};
        }
        part -= parts;
    }
    fail<InternalError>("a history has no part {}", part);
}

// Keys within the sliding window alone; those of the chunk itself are seen from their own positions on.
KeyPart KeyParts::part_of(std::int64_t first, std::int64_t end) const {
    const std::int64_t first_query = std::max(first, first_);
    const std::int64_t end_query = std::min(end_, end - 1 + window_);
    const bool all = end_query - window_ <= first;
    return {first, end - first, first_query, end_query - first_query, all ? 0 : window_};
}

KeyPart KeyParts::own_part(std::int64_t part) const {
    if (own_sinks_end_ > first_ && part == 0) {
        return {first_, own_sinks_end_ - first_, first_, end_ - first_, 0};
    }
    return part_of(own_sinks_end_, end_);
}

std::int64_t KeyParts::longest_tokens() const {
    std::int64_t longest = 0;
    for (const Segment& segment : segments_) {
        longest = std::max(longest, std::min(cut_tokens_, segment.end - segment.first));
    }
    return longest;
}

std::vector<LayersAlike> layers_alike(const StepShape& step) {
    std::vector<LayersAlike> list;
    std::int64_t before = -1;
    for (std::int64_t layer = 0; layer < step.model().layers; ++layer) {
        if (const std::int64_t window = step.sliding_window(layer); window != before) {
            list.push_back({layer, 0});
            before = window;
        }
        ++list.back().count;
    }
    return list;
}

// Segments grow from chunk to chunk until they have their full length. The last chunk may be shorter than others, and
// sinks take their part of a history as soon as a sliding window no longer reaches all of it.
std::int64_t longest_history_part(const StepShape& step) {
    const std::int64_t last = step.chunks() - 1;
    std::int64_t longest = 0;
    for (const auto& [layer, count] : layers_alike(step)) {
        const std::int64_t window = step.sliding_window(layer);
        longest = std::max(longest, KeyParts(step, last, layer).longest_tokens());
        if (window > 0 && last > 0) {
            const std::int64_t last_whole = std::clamp<std::int64_t>(window / step.run().chunk_tokens - 1, 0, last);
            longest = std::max({longest, KeyParts(step, last - 1, layer).longest_tokens(),
                                KeyParts(step, last_whole, layer).longest_tokens()});
        }
    }
    return longest;
}

std::int64_t longest_key_part(const StepShape& step) {
    return std::max(step.longest_chunk(), longest_history_part(step));
}

// The last chunk has the longest history, and sinks in a chunk of their own only where there is no other.
bool merges_parts(const StepShape& step) {
    const std::vector<LayersAlike> alike = layers_alike(step);
    return std::any_of(alike.begin(), alike.end(), [&](const LayersAlike& layers) {
        const KeyParts parts(step, step.chunks() - 1, layers.first);
        return parts.history() > 0 || parts.own() > 1;
    });
}

}  // namespace oomb::schedule
