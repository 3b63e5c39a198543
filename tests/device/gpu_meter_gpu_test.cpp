// The meter on the real driver.
#include <doctest/doctest.h>

#include <chrono>

#include "runtime/device/check.hpp"
#include "runtime/device/device_info.hpp"
#include "runtime/device/gpu_meter.hpp"

namespace oomb::device {

TEST_CASE("energy, power, clock, temperature and memory of the GPU in use") {
    const DeviceProbe probe = probe_device();
    const GpuMeter meter(probe.pci_bus);
    REQUIRE(meter.read().missing == "");
    const DeviceInfo info = open_device();
    CHECK(info.pci_bus == probe.pci_bus);
    const std::int64_t before = meter.read().process_bytes.value();
    constexpr std::int64_t kArena_bytes = std::int64_t{2} << 30;
    void* arena = nullptr;
    OOMB_CUDA(cudaMalloc(&arena, kArena_bytes));
    OOMB_CUDA(cudaDeviceSynchronize());
    const DeviceReading start = meter.read();
    // cudaMalloc takes whole granules of 2 MiB; nothing else is allocated here.
    CHECK(start.process_bytes.value() - before == kArena_bytes);
    const auto begin = std::chrono::steady_clock::now();
    std::chrono::duration<double> passed{};
    while (passed.count() < 2.0) {
        for (int i = 0; i < 100; ++i) {
            OOMB_CUDA(cudaMemsetAsync(arena, i, kArena_bytes));
        }
        OOMB_CUDA(cudaDeviceSynchronize());
        passed = std::chrono::steady_clock::now() - begin;
    }
    const DeviceReading end = meter.read();
    OOMB_CUDA(cudaFree(arena));
    MESSAGE("before the arena " << before << " bytes, with it " << start.process_bytes.value() << "; " << passed.count()
                                << " s, " << end.joules.value() - start.joules.value() << " J, " << end.watts.value()
                                << " W, " << end.clock_mhz.value() << " MHz, " << end.celsius.value() << " C");
    // An idle H200 draws some 75 W, its limit is 700 W; the counter moves in steps of some 0.1 s, so a few percent of
    // two seconds are uncertain.
    const double watts = (end.joules.value() - start.joules.value()) / passed.count();
    CHECK(watts > 60);
    CHECK(watts < 800);
    CHECK(end.watts.value() > 60);
    CHECK(end.watts.value() < 800);
    CHECK(end.clock_mhz.value() > 200);
    CHECK(end.clock_mhz.value() < 3000);
    CHECK(end.celsius.value() > 10);
    CHECK(end.celsius.value() < 100);
    CHECK(meter.peak_process_bytes().value() >= start.process_bytes.value());
}

}  // namespace oomb::device
