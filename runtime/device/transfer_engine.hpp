#pragma once
// Copies lists of pages between the host arena and the HBM arena, one stream per direction.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "runtime/device/arena_view.hpp"
#include "runtime/device/copy_batch.hpp"
#include "runtime/device/event_pool.hpp"
#include "runtime/device/stream.hpp"

namespace oomb::device {

// The driver's calls; tests put failing ones in place.
struct CopyCalls {
    cudaError_t (*batch)(void* const* destinations, const void* const* sources, const std::size_t* bytes,
                         std::size_t count, cudaMemcpyAttributes* attributes, std::size_t* attribute_begins,
                         std::size_t attribute_count, cudaStream_t stream) = cudaMemcpyBatchAsync;
    cudaError_t (*single)(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                          cudaStream_t stream) = cudaMemcpyAsync;
};

struct TransferOptions {
    std::int64_t events = 1024;  // enqueued lists whose leases may live at once
    Timing timing = Timing::kOff;
    CopyCalls calls;
};

// Used by one thread. The arenas must outlive it; it must outlive its leases. Destroying it waits for its streams, so
// that no copy runs on into freed memory.
class TransferEngine {
  public:
    TransferEngine(const ArenaView& hbm, const ArenaView& host, const TransferOptions& options = {});
    ~TransferEngine();
    TransferEngine(const TransferEngine&) = delete;
    TransferEngine& operator=(const TransferEngine&) = delete;

    // Copies begin in the order of the calls, per direction, each list after all of `waits`; within a list the order is
    // open, so no two copies of one list may write the same bytes. The event that comes back stands for the whole list
    // (an empty list passes its waits on). Allocates nothing and never waits on the host unless the driver's own queue
    // is full. Throws InternalError for a copy that leaves an arena (nothing of its list is then enqueued), CudaError
    // for a failed call.
    EventLease enqueue(Direction direction, std::span<const Copy> copies, std::span<const cudaEvent_t> waits = {});

    const Stream& stream(Direction direction) const { return streams_[static_cast<std::size_t>(direction)]; }
    const ArenaView& hbm() const { return hbm_; }
    const ArenaView& host() const { return host_; }
    bool batched() const { return batched_; }  // false once the driver has refused cudaMemcpyBatchAsync
    void wait_idle() const;                    // blocks the host until both directions are done

  private:
    void add(Direction direction, const Copy& copy);
    void flush(Direction direction);
    void flush_one_by_one(Direction direction);

    ArenaView hbm_;
    ArenaView host_;
    CopyCalls calls_;
    Stream streams_[2];
    EventPool events_;
    CopyBatch batch_;
    bool batched_ = true;
};

}  // namespace oomb::device
