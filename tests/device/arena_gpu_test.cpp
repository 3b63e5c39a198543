#include <doctest/doctest.h>
#include <sys/mman.h>

#include "tests/core/messages.hpp"
#include "tests/device/gpu_arenas.hpp"

namespace oomb::device {

namespace {

bool pinned(const std::byte* memory) {
    cudaPointerAttributes attributes{};
    OOMB_CUDA(cudaPointerGetAttributes(&attributes, memory));
    return attributes.type == cudaMemoryTypeHost;
}

}  // namespace

TEST_CASE("an HBM arena that is too large names asked, free and total bytes, and leaves the device usable") {
    const DeviceInfo info = open_device();
    const std::string message = test::message_of<DoesNotFitError>([&] { HbmArena(info.total_bytes + kGiB); });
    test::check_contains(message, {"GPU memory: the run reserves", "free are", format_bytes(info.total_bytes),
                                   format_bytes(info.total_bytes + kGiB), "--gpu-memory"});
    CHECK(cudaGetLastError() == cudaSuccess);
    const HbmArena arena(kMiB);
    OOMB_CUDA(cudaMemset(arena.view().at(0, kMiB), 1, kMiB));
    OOMB_CUDA(cudaDeviceSynchronize());
}

TEST_CASE("host arenas of odd sizes are pinned from the first byte to the last, and no longer than they live") {
    open_device();
    for (const std::int64_t bytes : {std::int64_t{1}, 3 * kMiB + 123, 64 * kMiB + 4097}) {
        HostArenaOptions options;
        options.piece_bytes = 8 * kMiB;
        const std::byte* base = nullptr;
        {
            const HostArena arena(bytes, options);
            base = arena.view().base;
            CHECK(pinned(base));
            CHECK(pinned(base + bytes - 1));
        }
        CHECK_FALSE(pinned(base));
    }
}

TEST_CASE("arenas, streams and events made and destroyed 20 times leave as much memory as before") {
    { const GpuArenas first(64 * kMiB); }
    const std::int64_t before = device_memory().free_bytes;
    for (int i = 0; i < 20; ++i) {
        GpuArenas again(64 * kMiB);
        const Copy copy{0, 0, 64 * kMiB};
        again.engine.enqueue(Direction::kHostToDevice, {&copy, 1});
    }
    CHECK(device_memory().free_bytes == before);
}

TEST_CASE("an engine destroyed with copies in flight waits for them") {
    for (int i = 0; i < 5; ++i) {
        GpuArenas arenas(256 * kMiB);
        const Copy copy{0, 0, 256 * kMiB};
        arenas.engine.enqueue(Direction::kDeviceToHost, {&copy, 1});
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

}  // namespace oomb::device
