#pragma once
// Where CUPTI's callbacks leave what they bring, and the recorder's thread finds it.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "profiler/record/buffer_pool.hpp"

namespace oomb::profiler {

struct CompletedBuffer {
    std::uint8_t* buffer = nullptr;
    std::size_t valid_bytes = 0;
};

// What CUPTI's callbacks reach, which know of no object: made once and never destroyed, for they may come as late as
// the driver's own end.
struct Exchange {
    BufferPool pool{BufferPool::Options{}};
    std::mutex mutex;
    std::condition_variable arrived;  // any of what follows
    std::vector<CompletedBuffer> completed;
    bool window_moved = false;  // it began or ended
    bool stopping = false;
    bool in_use = false;  // by a session
};

Exchange& exchange();

}  // namespace oomb::profiler
