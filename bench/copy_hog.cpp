// Takes bandwidth away from another program: copies pinned host memory to the device and back, in both directions at
// once, until SIGINT or SIGTERM.
//
//     copy_hog [MIB [DIRECTIONS]]
//
// MIB: size of a copy, 64 if not given; DIRECTIONS: both, in (host to device) or out. Prints "ready" when it copies,
// and at the end what it moved as JSON: bytes per second of each direction.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/core/units.hpp"
#include "runtime/device/check.hpp"

namespace oomb::device {
namespace {

volatile std::sig_atomic_t stopped = 0;

void stop(int) {
    stopped = 1;
}

// One direction: two copies are always queued, so that the engine never waits for the host.
class Copies {
  public:
    Copies(std::int64_t bytes, cudaMemcpyKind kind) : bytes_(bytes), kind_(kind) {
        OOMB_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        OOMB_CUDA(cudaMalloc(&device_, static_cast<std::size_t>(bytes)));
        OOMB_CUDA(cudaHostAlloc(&host_, static_cast<std::size_t>(bytes), cudaHostAllocDefault));
        for (cudaEvent_t& event : done_) {
            OOMB_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
            queue(event);
        }
    }

    // Waits for the older of both and queues another.
    void step() {
        cudaEvent_t& event = done_[copies_ % 2];
        OOMB_CUDA(cudaEventSynchronize(event));
        copies_ += 1;
        queue(event);
    }

    std::int64_t moved_bytes() const { return copies_ * bytes_; }

  private:
    void queue(cudaEvent_t event) {
        const bool in = kind_ == cudaMemcpyHostToDevice;
        OOMB_CUDA(cudaMemcpyAsync(in ? device_ : host_, in ? host_ : device_, static_cast<std::size_t>(bytes_), kind_,
                                  stream_));
        OOMB_CUDA(cudaEventRecord(event, stream_));
    }

    std::int64_t bytes_;
    cudaMemcpyKind kind_;
    cudaStream_t stream_ = nullptr;
    void *device_ = nullptr, *host_ = nullptr;
    cudaEvent_t done_[2] = {};
    std::int64_t copies_ = 0;
};

int run(std::int64_t bytes, const std::string& directions) {
    const bool in = directions != "out", out = directions != "in";
    Copies to_device(bytes, cudaMemcpyHostToDevice), to_host(bytes, cudaMemcpyDeviceToHost);
    std::puts("ready");
    std::fflush(stdout);
    const auto begin = std::chrono::steady_clock::now();
    while (stopped == 0) {
        if (in) {
            to_device.step();
        }
        if (out) {
            to_host.step();
        }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    OOMB_CUDA(cudaDeviceSynchronize());
    std::puts(fmt::format(R"({{"seconds":{:.3f},"host_to_device_bytes_per_second":{:.0f},)"
                          R"("device_to_host_bytes_per_second":{:.0f}}})",
                          seconds, static_cast<double>(to_device.moved_bytes()) / seconds,
                          static_cast<double>(to_host.moved_bytes()) / seconds)
                  .c_str());
    return 0;
}

}  // namespace
}  // namespace oomb::device

int main(int argc, char** argv) {
    const std::string directions = argc > 2 ? argv[2] : "both";
    if (argc > 3 || (directions != "both" && directions != "in" && directions != "out")) {
        std::fputs("usage: copy_hog [MIB [both|in|out]]\n", stderr);
        return 2;
    }
    std::signal(SIGINT, oomb::device::stop);
    std::signal(SIGTERM, oomb::device::stop);
    try {
        return oomb::device::run((argc > 1 ? std::max(1, std::atoi(argv[1])) : 64) * oomb::kMiB, directions);
    } catch (const std::exception& error) {
        std::fputs(fmt::format("copy_hog: {}\n", error.what()).c_str(), stderr);
        return 1;
    }
}
