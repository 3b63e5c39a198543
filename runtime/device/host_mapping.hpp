#pragma once
// Anonymous memory of an exact size, and threads that make it resident.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace oomb::device {

// mmap, aligned to 2 MiB so that huge pages fit, unmapped on destruction. Nothing is resident yet; every byte reads 0.
class HostMapping {
  public:
    // Prefers memory of `numa_node` (-1: no preference; a kernel without NUMA ignores it) and huge pages where the
    // system permits them. Throws DoesNotFitError when the address space is refused.
    HostMapping(std::int64_t bytes, int numa_node);
    ~HostMapping();
    HostMapping(const HostMapping&) = delete;
    HostMapping& operator=(const HostMapping&) = delete;

    std::byte* base() const { return base_; }
    std::int64_t bytes() const { return bytes_; }
    bool on_numa_node() const { return on_numa_node_; }  // the kernel took the preference

  private:
    std::byte* base_ = nullptr;
    std::int64_t bytes_ = 0;
    bool on_numa_node_ = false;
};

// Writes one byte per page of [base, base + bytes), in parallel and from front to back. Destroying it before the end
// stops the threads at their next step.
class ParallelTouch {
  public:
    // `piece_bytes` is what wait_piece() counts in, `threads` at least 1.
    ParallelTouch(std::byte* base, std::int64_t bytes, std::int64_t piece_bytes, int threads);
    ~ParallelTouch();
    ParallelTouch(const ParallelTouch&) = delete;
    ParallelTouch& operator=(const ParallelTouch&) = delete;

    void wait_piece(std::int64_t piece);  // blocks until all of the piece is resident

  private:
    void work();
    void touch(std::int64_t begin, std::int64_t end);
    std::int64_t steps_in(std::int64_t piece) const;

    std::byte* base_;
    std::int64_t bytes_;
    std::int64_t piece_bytes_;
    std::int64_t steps_per_piece_;
    std::int64_t pieces_;
    std::atomic<std::int64_t> next_step_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable piece_done_;
    std::vector<std::int64_t> steps_done_;  // per piece, under mutex_
    std::vector<std::thread> threads_;      // last: begun when all else is there
};

}  // namespace oomb::device
