#include "runtime/paging/frame_pool.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"

namespace oomb::paging {

std::int32_t FramePool::take() {
    require(has_free(), "frame pool: all {} frames are in use", frames_);
    std::int32_t frame = 0;
    if (returned_.empty()) {
        frame = static_cast<std::int32_t>(next_unused_++);
    } else {
        frame = returned_.back();
        returned_.pop_back();
    }
    most_in_use_ = std::max(most_in_use_, in_use());
    return frame;
}

void FramePool::give_back(std::int32_t frame) {
    require(frame >= 0 && frame < next_unused_, "frame pool: frame {} was never handed out", frame);
    returned_.push_back(frame);
}

}  // namespace oomb::paging
