#pragma once
// Frames in the order of their last use; every step takes constant time.

#include <cstdint>
#include <vector>

namespace oomb::paging {

class LruList {
  public:
    explicit LruList(std::int64_t frames) : links_(frames + 1) {
        for (auto& link : links_) {
            link = {kAbsent, kAbsent};
        }
        links_.back() = {end(), end()};
    }

    bool contains(std::int32_t frame) const { return links_[frame].previous != kAbsent; }
    bool empty() const { return links_.back().next == end(); }
    std::int32_t oldest() const { return links_.back().next; }  // the list is not empty

    // Appends the frame, or moves it to the end.
    void touch(std::int32_t frame) {
        remove(frame);
        const std::int32_t last = links_.back().previous;
        links_[frame] = {last, end()};
        links_[last].next = frame;
        links_.back().previous = frame;
    }

    void remove(std::int32_t frame) {
        if (!contains(frame)) {
            return;
        }
        const Link link = links_[frame];
        links_[link.previous].next = link.next;
        links_[link.next].previous = link.previous;
        links_[frame] = {kAbsent, kAbsent};
    }

  private:
    struct Link {
        std::int32_t previous;
        std::int32_t next;
    };
    static constexpr std::int32_t kAbsent = -1;
    std::int32_t end() const { return static_cast<std::int32_t>(links_.size()) - 1; }

    std::vector<Link> links_;  // the last element is the list's head
};

}  // namespace oomb::paging
