#include "profiler/record/buffer_pool.hpp"

namespace oomb::profiler {

BufferPool::BufferPool(const Options& options) : options_(options) {
    all_.reserve(options.most_buffers);
    free_.reserve(options.most_buffers);
    for (std::size_t i = 0; i < options.buffers; ++i) {
        make_one();
    }
}

// Zeroed, so every page of it is there. 16-byte aligned by operator new; CUPTI wants 8.
void BufferPool::make_one() {
    all_.push_back(std::make_unique<std::uint8_t[]>(options_.buffer_bytes));
    free_.push_back(all_.back().get());
}

std::uint8_t* BufferPool::take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty() && all_.size() < options_.most_buffers) {
        make_one();
    }
    if (free_.empty()) {
        return nullptr;
    }
    std::uint8_t* buffer = free_.back();
    free_.pop_back();
    return buffer;
}

void BufferPool::give(std::uint8_t* buffer) {
    const std::lock_guard lock(mutex_);
    free_.push_back(buffer);
}

std::size_t BufferPool::buffers() const {
    const std::lock_guard lock(mutex_);
    return all_.size();
}

std::size_t BufferPool::taken() const {
    const std::lock_guard lock(mutex_);
    return all_.size() - free_.size();
}

}  // namespace oomb::profiler
