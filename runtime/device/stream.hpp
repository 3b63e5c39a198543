#pragma once
// Owning handles of CUDA streams and events. Move-only; destroying one never blocks: the driver lets queued work end.

#include <cuda_runtime_api.h>

#include <memory>

namespace oomb::device {

// kOn makes an event that milliseconds_between() can read; it costs the GPU a time stamp per record.
enum class Timing : bool { kOff, kOn };
enum class Priority : bool { kNormal, kHigh };

class Event {
  public:
    explicit Event(Timing timing = Timing::kOff);  // throws CudaError

    cudaEvent_t get() const { return handle_.get(); }
    bool done() const;       // all work before the last record is done; true if never recorded
    void wait_done() const;  // blocks the host

  private:
    struct Destroy {
        void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
    };
    std::unique_ptr<CUevent_st, Destroy> handle_;
};

// Time on the GPU from one record to the other. Both must be of Timing::kOn and done, else CudaError.
double milliseconds_between(const Event& begin, const Event& end);

// A queue of work that shares nothing with the legacy default stream.
class Stream {
  public:
    explicit Stream(Priority priority = Priority::kNormal);  // throws CudaError

    cudaStream_t get() const { return handle_.get(); }
    // `event` now stands for all work that is in the stream at this moment.
    void enqueue_record(cudaEvent_t event) const;
    // Later work in this stream begins after what `event` stands for *now*; a later record changes nothing, so the
    // event may be recorded again at once.
    void enqueue_wait(cudaEvent_t event) const;
    void wait_idle() const;  // blocks the host; reports what failed in the stream

  private:
    struct Destroy {
        void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
    };
    std::unique_ptr<CUstream_st, Destroy> handle_;
};

}  // namespace oomb::device
