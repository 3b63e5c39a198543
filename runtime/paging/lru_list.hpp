#pragma once
// Frames in the order of their last use; every step takes constant time.

#include <cstdint>
#include <vector>

namespace oomb::paging {

class LruList {
  public:
    struct Link {
        std::int32_t previous = kAbsent;
        std::int32_t next = kAbsent;
    };

    explicit LruList(std::int64_t frames) : links_(frames) {}

    bool contains(std::int32_t frame) const { return links_[frame].previous != kAbsent; }
    bool empty() const { return oldest_ == kEnd; }
    std::int64_t size() const { return size_; }
    std::int32_t oldest() const { return oldest_; }                                   // the list is not empty
    std::int32_t newest() const { return newest_; }                                   // the list is not empty
    std::int32_t after(std::int32_t frame) const { return links_[frame].next; }       // negative: there is none
    std::int32_t before(std::int32_t frame) const { return links_[frame].previous; }  // negative: there is none

    // Appends the frame, or moves it to the end.
    void touch(std::int32_t frame) {
        remove(frame);
        links_[frame] = {newest_, kEnd};
        next_of(newest_) = frame;
        newest_ = frame;
        ++size_;
    }

    void remove(std::int32_t frame) {
        if (!contains(frame)) {
            return;
        }
        const Link link = links_[frame];
        next_of(link.previous) = link.next;
        previous_of(link.next) = link.previous;
        links_[frame] = {};
        --size_;
    }

    std::int64_t table_bytes() const { return static_cast<std::int64_t>(links_.size() * sizeof(Link)); }

  private:
    static constexpr std::int32_t kAbsent = -2;
    static constexpr std::int32_t kEnd = -1;

    // Beyond either end lies the list itself.
    std::int32_t& next_of(std::int32_t frame) { return frame == kEnd ? oldest_ : links_[frame].next; }
    std::int32_t& previous_of(std::int32_t frame) { return frame == kEnd ? newest_ : links_[frame].previous; }

    std::vector<Link> links_;
    std::int32_t oldest_ = kEnd;
    std::int32_t newest_ = kEnd;
    std::int64_t size_ = 0;
};

}  // namespace oomb::paging
