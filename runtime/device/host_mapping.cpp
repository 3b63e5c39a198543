#include "runtime/device/host_mapping.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb::device {

namespace {

constexpr std::int64_t kHugePageBytes = 2 * kMiB;
constexpr std::int64_t kStepBytes = 16 * kMiB;  // what a thread takes at a time
constexpr std::int64_t kPageBytes = 4 * kKiB;

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

// The system call itself, so that no libnuma is needed.
bool prefer_node(std::byte* base, std::int64_t bytes, int node) {
    constexpr unsigned long kMaxNodes = 1024;
    constexpr int kBits = 64;
    if (node < 0 || static_cast<unsigned long>(node) >= kMaxNodes) {
        return false;
    }
    std::array<unsigned long, kMaxNodes / kBits> nodes{};
    nodes[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
    return syscall(SYS_mbind, base, static_cast<unsigned long>(bytes), MPOL_PREFERRED, nodes.data(), kMaxNodes + 1,
                   0U) == 0;
}

}  // namespace

HostMapping::HostMapping(std::int64_t bytes, int numa_node) : bytes_(bytes) {
    require(bytes > 0 && bytes <= std::int64_t{1} << 46, "host arena of {} bytes", bytes);
    const std::int64_t mapped = round_up(bytes, kPageBytes);
    const std::int64_t reserved = mapped + kHugePageBytes;
    void* memory = mmap(nullptr, static_cast<std::size_t>(reserved), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fail<DoesNotFitError>("host memory: mmap of {} was refused: {}; see `ulimit -v`", format_bytes(bytes),
                              std::strerror(errno));
    }
    auto* const first = static_cast<std::byte*>(memory);
    const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(first));
    const std::int64_t head = round_up(address, kHugePageBytes) - address;
    base_ = first + head;
    if (head > 0) {
        munmap(first, static_cast<std::size_t>(head));
    }
    if (const std::int64_t tail = reserved - head - mapped; tail > 0) {
        munmap(base_ + mapped, static_cast<std::size_t>(tail));
    }
    madvise(base_, static_cast<std::size_t>(mapped), MADV_HUGEPAGE);
    on_numa_node_ = prefer_node(base_, mapped, numa_node);
}

HostMapping::~HostMapping() {
    munmap(base_, static_cast<std::size_t>(round_up(bytes_, kPageBytes)));
}

ParallelTouch::ParallelTouch(std::byte* base, std::int64_t bytes, std::int64_t piece_bytes, int threads)
    : base_(base),
      bytes_(bytes),
      piece_bytes_(piece_bytes),
      steps_per_piece_((piece_bytes + kStepBytes - 1) / kStepBytes),
      pieces_((bytes + piece_bytes - 1) / piece_bytes),
      steps_done_(static_cast<std::size_t>(pieces_), 0) {
    try {
        for (int i = 0; i < threads; ++i) {
            threads_.emplace_back([this] { work(); });
        }
    } catch (const std::system_error&) {
        if (threads_.empty()) {
            throw;
        }
    }
}

ParallelTouch::~ParallelTouch() {
    stop_ = true;
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

std::int64_t ParallelTouch::steps_in(std::int64_t piece) const {
    const std::int64_t in_piece = std::min(piece_bytes_, bytes_ - piece * piece_bytes_);
    return (in_piece + kStepBytes - 1) / kStepBytes;
}

void ParallelTouch::touch(std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += kPageBytes) {
        *reinterpret_cast<volatile std::byte*>(base_ + at) = std::byte{0};
    }
}

void ParallelTouch::work() {
    while (!stop_) {
        const std::int64_t step = next_step_++;
        const std::int64_t piece = step / steps_per_piece_;
        if (piece >= pieces_) {
            return;
        }
        if (step % steps_per_piece_ >= steps_in(piece)) {
            continue;  // the last piece may have fewer
        }
        const std::int64_t begin = piece * piece_bytes_ + step % steps_per_piece_ * kStepBytes;
        const std::int64_t piece_end = std::min((piece + 1) * piece_bytes_, bytes_);
        touch(begin, std::min(begin + kStepBytes, piece_end));
        const std::lock_guard lock(mutex_);
        if (++steps_done_[static_cast<std::size_t>(piece)] == steps_in(piece)) {
            piece_done_.notify_all();
        }
    }
}

void ParallelTouch::wait_piece(std::int64_t piece) {
    require(piece >= 0 && piece < pieces_, "piece {} of {}", piece, pieces_);
    std::unique_lock lock(mutex_);
    piece_done_.wait(lock, [&] { return steps_done_[static_cast<std::size_t>(piece)] == steps_in(piece); });
}

}  // namespace oomb::device
