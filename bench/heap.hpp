#pragma once
// Bytes on the heap of a benchmark's process. Linking heap.cpp puts every allocation with new through a counter.

#include <cstdint>

namespace oomb::bench {

std::int64_t heap_bytes();       // now
std::int64_t most_heap_bytes();  // since start_heap_peak
void start_heap_peak();

}  // namespace oomb::bench
