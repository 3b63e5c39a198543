#pragma once
// Memory for CUPTI's records: taken when a launch needs a buffer, so it is there and touched before, and given back
// when the records are written.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace oomb::profiler {

// Thread safe.
class BufferPool {
  public:
    struct Options {
        // Some 500 kernels: CUPTI keeps a buffer until all in it has ended, and what it keeps is lost if the program is
        // killed.
        std::size_t buffer_bytes = std::size_t{1} << 17;
        std::size_t buffers = 256;        // made and touched at once
        std::size_t most_buffers = 2048;  // one more is made when none is free, up to here
    };
    explicit BufferPool(const Options& options);
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    std::uint8_t* take();  // null when all are in use: CUPTI drops records then, and counts them
    void give(std::uint8_t* buffer);

    std::size_t buffer_bytes() const { return options_.buffer_bytes; }
    std::size_t buffers() const;  // made so far
    std::size_t taken() const;    // and not given back

  private:
    void make_one();

    Options options_;
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<std::uint8_t[]>> all_;
    std::vector<std::uint8_t*> free_;
};

}  // namespace oomb::profiler
