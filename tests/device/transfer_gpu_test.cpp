#include <doctest/doctest.h>

#include <cstring>

#include "bench/heap.hpp"
#include "tests/core/messages.hpp"
#include "tests/device/gpu_arenas.hpp"

namespace oomb::device {

namespace {

constexpr std::int64_t kPages = 700;                  // three batches, the last not full
constexpr std::int64_t kPage_bytes = 40 * kKiB + 24;  // divides no piece: pages lie across their borders
constexpr std::int64_t kHalf_bytes = kPages * kPage_bytes;

// Page i of `from` (host) to page device_order[i], and from there to page back_order[i] behind the half.
struct RoundTrip {
    std::vector<Copy> up, down;
    RoundTrip() {
        const auto host = shuffled(kPages, 1), device = shuffled(kPages, 2), back = shuffled(kPages, 3);
        for (std::size_t i = 0; i < static_cast<std::size_t>(kPages); ++i) {
            up.push_back({host[i] * kPage_bytes, device[i] * kPage_bytes, kPage_bytes});
            down.push_back({kHalf_bytes + back[i] * kPage_bytes, device[i] * kPage_bytes, kPage_bytes});
        }
    }
};

void check_round_trip(const TransferOptions& options, bool batched) {
    GpuArenas arenas(2 * kHalf_bytes, 1028 * kKiB, options);
    fill_random(arenas.host.view().base, kHalf_bytes, 7);
    const RoundTrip trip;
    const EventLease up = arenas.engine.enqueue(Direction::kHostToDevice, trip.up);
    const cudaEvent_t wait = up.get();
    const EventLease down = arenas.engine.enqueue(Direction::kDeviceToHost, trip.down, {&wait, 1});
    down.event().wait_done();
    CHECK(arenas.engine.batched() == batched);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < trip.up.size(); ++i) {
        const std::byte* sent = arenas.host.view().at(trip.up[i].host_offset, kPage_bytes);
        const std::byte* back = arenas.host.view().at(trip.down[i].host_offset, kPage_bytes);
        wrong += std::memcmp(sent, back, static_cast<std::size_t>(kPage_bytes)) != 0;
    }
    CHECK(wrong == 0);
}

cudaError_t refuse_batch(void* const*, const void* const*, const std::size_t*, std::size_t, cudaMemcpyAttributes*,
                         std::size_t*, std::size_t, cudaStream_t) {
    return cudaErrorNotSupported;
}

cudaError_t fail_batch(void* const*, const void* const*, const std::size_t*, std::size_t, cudaMemcpyAttributes*,
                       std::size_t*, std::size_t, cudaStream_t) {
    return cudaErrorIllegalAddress;
}

class Operation : public ErrorContext {
  public:
    std::string describe() const override { return "fetch of chunk 3, layer 5"; }
};

}  // namespace

TEST_CASE("random page lists arrive in the right places, whole") {
    check_round_trip({}, true);
}

TEST_CASE("a driver without batched copies is served copy by copy") {
    TransferOptions options;
    options.calls.batch = refuse_batch;
    check_round_trip(options, false);
}

TEST_CASE("a failed copy names the operation, and its event goes back") {
    TransferOptions options;
    options.events = 1;
    options.calls.batch = fail_batch;
    GpuArenas arenas(kMiB, kGiB, options);
    const Copy copy{0, 0, kMiB};
    const Operation operation;
    const ErrorScope scope(operation);
    for (int i = 0; i < 2; ++i) {
        const std::string message = test::message_of<CudaError>([&] {
            arenas.engine.enqueue(Direction::kHostToDevice, {&copy, 1});
        });
        test::check_contains(message, {"cudaMemcpyBatchAsync", "cudaErrorIllegalAddress", "fetch of chunk 3, layer 5"});
    }
}

TEST_CASE("a list with one copy outside an arena is refused before any of it is enqueued") {
    GpuArenas arenas(kMiB);
    std::memset(arenas.host.view().base, 1, kMiB);
    OOMB_CUDA(cudaMemset(arenas.hbm.view().base, 2, kMiB));
    OOMB_CUDA(cudaDeviceSynchronize());
    for (const Copy bad : {Copy{kMiB, 0, 1}, Copy{0, kMiB - 1, 2}, Copy{0, -1, 1}, Copy{0, 0, 0}}) {
        const Copy copies[] = {{0, 0, kMiB}, bad};
        CHECK_THROWS_AS(arenas.engine.enqueue(Direction::kDeviceToHost, copies), InternalError);
    }
    arenas.engine.wait_idle();
    CHECK(arenas.host.view().base[0] == std::byte{1});
}

TEST_CASE("an empty list passes its waits on") {
    GpuArenas arenas(kMiB);
    const EventLease done = arenas.engine.enqueue(Direction::kHostToDevice, {});
    done.event().wait_done();
    CHECK(done.event().done());
}

TEST_CASE("after the first lists enqueueing allocates nothing") {
    GpuArenas arenas(2 * kHalf_bytes);
    const RoundTrip trip;
    arenas.engine.enqueue(Direction::kHostToDevice, trip.up);
    bench::start_heap_peak();
    const std::int64_t before = bench::heap_bytes();
    const std::int64_t gpu_before = device_memory().free_bytes;
    for (int i = 0; i < 20; ++i) {
        const EventLease up = arenas.engine.enqueue(Direction::kHostToDevice, trip.up);
        const cudaEvent_t wait = up.get();
        arenas.engine.enqueue(Direction::kDeviceToHost, trip.down, {&wait, 1});
    }
    CHECK(bench::most_heap_bytes() == before);
    arenas.engine.wait_idle();
    CHECK(device_memory().free_bytes == gpu_before);
}

}  // namespace oomb::device
