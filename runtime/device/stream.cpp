#include "runtime/device/stream.hpp"

#include "runtime/device/check.hpp"

namespace oomb::device {

Event::Event(Timing timing) {
    cudaEvent_t event = nullptr;
    const unsigned flags = timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming;
    OOMB_CUDA(cudaEventCreateWithFlags(&event, flags));
    handle_.reset(event);
}

bool Event::done() const {
    const cudaError_t status = cudaEventQuery(get());
    if (status == cudaErrorNotReady) {
        return false;
    }
    check(status, "cudaEventQuery");
    return true;
}

void Event::wait_done() const {
    OOMB_CUDA(cudaEventSynchronize(get()));
}

double milliseconds_between(const Event& begin, const Event& end) {
    float milliseconds = 0.0F;
    OOMB_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    return static_cast<double>(milliseconds);
}

Stream::Stream(Priority priority) {
    int least = 0, greatest = 0;
    OOMB_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream = nullptr;
    const int level = priority == Priority::kHigh ? greatest : least;
    OOMB_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, level));
    handle_.reset(stream);
}

void Stream::enqueue_record(cudaEvent_t event) const {
    OOMB_CUDA(cudaEventRecord(event, get()));
}
void Stream::enqueue_wait(cudaEvent_t event) const {
    OOMB_CUDA(cudaStreamWaitEvent(get(), event, 0));
}
void Stream::wait_idle() const {
    OOMB_CUDA(cudaStreamSynchronize(get()));
}

}  // namespace oomb::device
