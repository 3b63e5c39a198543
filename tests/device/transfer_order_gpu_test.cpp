#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/device/gpu_arenas.hpp"

namespace oomb::device {

namespace {

constexpr std::int64_t kSmall = 256 * kKiB;

void sleep_100_ms(void*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// Work that ends 100 ms from now and leaves `value` in all of the HBM arena.
void enqueue_slow_fill(const Stream& stream, const GpuArenas& arenas, int value) {
    OOMB_CUDA(cudaLaunchHostFunc(stream.get(), sleep_100_ms, nullptr));
    OOMB_CUDA(cudaMemsetAsync(arenas.hbm.view().base, value, kSmall, stream.get()));
}

void clear(const GpuArenas& arenas) {
    OOMB_CUDA(cudaMemset(arenas.hbm.view().base, 0, kSmall));
    OOMB_CUDA(cudaDeviceSynchronize());
}

double milliseconds(GpuArenas& arenas, bool up, bool down) {
    const std::int64_t half_bytes = arenas.hbm.bytes() / 2;
    const Copy up_copy{0, 0, half_bytes}, down_copy{half_bytes, half_bytes, half_bytes};
    const auto begin = std::chrono::steady_clock::now();
    if (up) {
        arenas.engine.enqueue(Direction::kHostToDevice, {&up_copy, 1});
    }
    if (down) {
        arenas.engine.enqueue(Direction::kDeviceToHost, {&down_copy, 1});
    }
    arenas.engine.wait_idle();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double best_of_5(GpuArenas& arenas, bool up, bool down) {
    double best = milliseconds(arenas, up, down);
    for (int i = 0; i < 4; ++i) {
        best = std::min(best, milliseconds(arenas, up, down));
    }
    return best;
}

}  // namespace

TEST_CASE("a copy waits for the event of a slow producer") {
    GpuArenas arenas(kSmall);
    const Stream compute;
    const Event produced;
    const Copy copy{0, 0, kSmall};
    clear(arenas);
    enqueue_slow_fill(compute, arenas, 0x5A);
    compute.enqueue_record(produced.get());
    const cudaEvent_t wait = produced.get();
    arenas.engine.enqueue(Direction::kDeviceToHost, {&copy, 1}, {&wait, 1}).event().wait_done();
    const std::byte* host = arenas.host.view().base;
    CHECK(std::all_of(host, host + kSmall, [](std::byte value) { return value == std::byte{0x5A}; }));
}

TEST_CASE("without the event it does not: the test above can fail") {
    GpuArenas arenas(kSmall);
    const Stream compute;
    const Copy copy{0, 0, kSmall};
    clear(arenas);
    enqueue_slow_fill(compute, arenas, 0x5A);
    arenas.engine.enqueue(Direction::kDeviceToHost, {&copy, 1}).event().wait_done();
    CHECK(arenas.host.view().base[0] == std::byte{0});
    compute.wait_idle();
}

TEST_CASE("compute waits for the event of a copy, and the next copy for the compute that reads the frame") {
    GpuArenas arenas(2 * kSmall);
    const Stream compute;
    const Event read;
    std::byte* const host = arenas.host.view().base;
    std::byte* const frame = arenas.hbm.view().at(0, kSmall);
    std::byte* const result = arenas.hbm.view().at(kSmall, kSmall);
    std::memset(host, 1, kSmall);
    std::memset(host + kSmall, 2, kSmall);
    const Copy first{0, 0, kSmall}, second{kSmall, 0, kSmall};
    const EventLease fetched = arenas.engine.enqueue(Direction::kHostToDevice, {&first, 1});
    compute.enqueue_wait(fetched.get());
    OOMB_CUDA(cudaLaunchHostFunc(compute.get(), sleep_100_ms, nullptr));
    OOMB_CUDA(cudaMemcpyAsync(result, frame, kSmall, cudaMemcpyDeviceToDevice, compute.get()));
    compute.enqueue_record(read.get());
    const cudaEvent_t wait = read.get();
    arenas.engine.enqueue(Direction::kHostToDevice, {&second, 1}, {&wait, 1}).event().wait_done();
    const Copy back[] = {{0, kSmall, kSmall}, {kSmall, 0, kSmall}};
    arenas.engine.enqueue(Direction::kDeviceToHost, back).event().wait_done();
    CHECK(std::all_of(host, host + kSmall, [](std::byte value) { return value == std::byte{1}; }));
    CHECK(std::all_of(host + kSmall, host + 2 * kSmall, [](std::byte value) { return value == std::byte{2}; }));
}

// Both at once would take as long as one after the other without overlap, and about 1.1 times one of them with it
// (the link loses a tenth when both directions are busy): the middle is the border.
TEST_CASE("the directions run side by side") {
    GpuArenas arenas(kGiB);
    const double up = best_of_5(arenas, true, false), down = best_of_5(arenas, false, true);
    const double both = best_of_5(arenas, true, true);
    CAPTURE(up);
    CAPTURE(down);
    CHECK(both < 0.75 * (up + down));
}

}  // namespace oomb::device
