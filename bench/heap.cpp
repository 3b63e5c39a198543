#include "bench/heap.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> live_bytes{0}, peak_bytes{0};

}  // namespace

void* operator new(std::size_t size) {
    void* block = std::malloc(size);
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    live_bytes += static_cast<std::int64_t>(malloc_usable_size(block));
    peak_bytes = std::max(peak_bytes.load(), live_bytes.load());
    return block;
}

void operator delete(void* block) noexcept {
    live_bytes -= static_cast<std::int64_t>(malloc_usable_size(block));
    std::free(block);
}

void operator delete(void* block, std::size_t) noexcept {
    operator delete(block);
}

namespace oomb::bench {

std::int64_t heap_bytes() {
    return live_bytes;
}

std::int64_t most_heap_bytes() {
    return peak_bytes;
}

void start_heap_peak() {
    peak_bytes = live_bytes.load();
}

}  // namespace oomb::bench
