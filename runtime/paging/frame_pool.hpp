#pragma once
// Numbers of free and taken frames of one slab. No memory is touched here.

#include <cstdint>
#include <vector>

namespace oomb::paging {

// Hands out frame numbers 0 .. frames - 1, deterministically: the frame given back last, else the lowest never used.
class FramePool {
  public:
    explicit FramePool(std::int64_t frames) : frames_(frames) { returned_.reserve(frames); }

    bool has_free() const { return !returned_.empty() || next_unused_ < frames_; }
    std::int32_t take();                 // InternalError when none is free
    void give_back(std::int32_t frame);  // the caller holds it
    // They are handed out, the last of them first, once all that were given back otherwise are; the caller holds them.
    void give_back_beneath(const std::vector<std::int32_t>& frames) {
        returned_.insert(returned_.begin(), frames.begin(), frames.end());
    }

    std::int64_t frames() const { return frames_; }
    std::int64_t in_use() const { return next_unused_ - static_cast<std::int64_t>(returned_.size()); }
    std::int64_t most_in_use() const { return most_in_use_; }
    std::int64_t table_bytes() const { return static_cast<std::int64_t>(returned_.capacity() * sizeof(std::int32_t)); }

  private:
    std::int64_t frames_;
    std::int64_t next_unused_ = 0;
    std::int64_t most_in_use_ = 0;
    std::vector<std::int32_t> returned_;
};

}  // namespace oomb::paging
