#include "runtime/device/host_arena.hpp"

#include <algorithm>
#include <thread>

#include "runtime/device/check.hpp"

namespace oomb::device {

namespace {

constexpr unsigned kMaxThreads = 16;  // 8 already clear 31 GiB/s

int thread_count(int asked) {
    return asked > 0 ? asked : static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads));
}

std::int64_t checked(std::int64_t bytes, const HostArenaOptions& options, const HostLimits& limits) {
    require(bytes > 0 && options.piece_bytes > 0 && options.piece_bytes % (4 * kKiB) == 0,
            "host arena of {} bytes in pieces of {}", bytes, options.piece_bytes);
    require_host_memory(bytes, limits);
    return bytes;
}

std::int64_t pieces_of(std::int64_t bytes, std::int64_t piece_bytes) {
    return (bytes + piece_bytes - 1) / piece_bytes;
}

}  // namespace

HostArena::Pins::Pins(const PinCalls& calls, std::int64_t pieces) : calls_(calls) {
    pieces_.reserve(static_cast<std::size_t>(pieces));
}

HostArena::Pins::~Pins() {
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
        calls_.unpin(*piece);
    }
}

cudaError_t HostArena::Pins::add(std::byte* memory, std::int64_t bytes) {
    const cudaError_t status = calls_.pin(memory, static_cast<std::size_t>(bytes), cudaHostRegisterDefault);
    if (status == cudaSuccess) {
        pieces_.push_back(memory);
    }
    return status;
}

HostArena::HostArena(std::int64_t bytes, const HostArenaOptions& options, const HostLimits& limits)
    : mapping_(checked(bytes, options, limits), options.numa_node),
      pins_(options.calls, pieces_of(bytes, options.piece_bytes)),
      view_{"host arena", mapping_.base(), bytes, options.piece_bytes} {
    ParallelTouch touch(mapping_.base(), bytes, options.piece_bytes, thread_count(options.threads));
    for (std::int64_t done = 0, piece = 0; done < bytes; ++piece) {
        const std::int64_t count = std::min(options.piece_bytes, bytes - done);
        touch.wait_piece(piece);
        const cudaError_t status = pins_.add(mapping_.base() + done, count);
        if (status == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            fail<DoesNotFitError>("host memory: the driver refused to pin more than {} of {}{}", format_bytes(done),
                                  format_bytes(bytes), lock_hint(bytes, limits));
        }
        check(status, "cudaHostRegister");
        done += count;
        if (options.progress) {
            options.progress(done, bytes);
        }
    }
}

}  // namespace oomb::device
