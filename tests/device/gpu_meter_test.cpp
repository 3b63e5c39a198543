// The meter on a library that pretends to be NVML.
#include "runtime/device/gpu_meter.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/core/messages.hpp"

namespace oomb::device {
namespace {

constexpr const char* kBus = "0000:17:00.0";

class Pretend {
  public:
    explicit Pretend(const char* what) { setenv("OOMB_FAKE_NVML", what, 1); }
    ~Pretend() { unsetenv("OOMB_FAKE_NVML"); }
    Pretend(const Pretend&) = delete;
    Pretend& operator=(const Pretend&) = delete;
};

void check_empty(const DeviceReading& reading) {
    CHECK_FALSE(reading.joules);
    CHECK_FALSE(reading.watts);
    CHECK_FALSE(reading.clock_mhz);
    CHECK_FALSE(reading.celsius);
    CHECK_FALSE(reading.process_bytes);
}

void check_missing(const GpuMeter& meter, std::initializer_list<std::string_view> fragments) {
    const DeviceReading reading = meter.read();
    CHECK(reading.missing.find('\n') == std::string::npos);
    test::check_contains(reading.missing, fragments);
    check_empty(reading);
    CHECK_FALSE(meter.peak_process_bytes());
}

}  // namespace

TEST_CASE("readings come in joules, watts, MHz, degrees and bytes") {
    const GpuMeter meter(kBus, OOMB_FAKE_NVML_PATH);
    const DeviceReading reading = meter.read();
    CHECK(reading.missing.empty());
    // Thousandths are a factor that is not exact in binary.
    CHECK(reading.joules.value() == doctest::Approx(123'456.789).epsilon(1e-12));
    CHECK(reading.watts.value() == doctest::Approx(687.5).epsilon(1e-12));
    CHECK(reading.clock_mhz == 1440);
    CHECK(reading.celsius == 61);
    CHECK(reading.process_bytes == 4242);
    CHECK(meter.peak_process_bytes() == 4242);
}

TEST_CASE("where this process is not listed, what the GPU uses more than at the start stands for it") {
    const Pretend container("container");
    const GpuMeter meter(kBus, OOMB_FAKE_NVML_PATH);
    CHECK(meter.read().process_bytes == 5000);
    CHECK(meter.read().process_bytes == 10000);
    CHECK(meter.peak_process_bytes() == 10000);
}

TEST_CASE("a driver that does not measure gives nothing, without a complaint") {
    const Pretend silent("silent");
    const GpuMeter meter(kBus, OOMB_FAKE_NVML_PATH);
    CHECK(meter.read().missing.empty());
    check_empty(meter.read());
}

TEST_CASE("no NVML, not NVML, no start, another GPU: one line says so") {
    const GpuMeter absent(kBus, "libno-such-library.so.1");
    check_missing(absent, {"libno-such-library.so.1", "NVIDIA driver", "not there"});
    const GpuMeter other(kBus, "libm.so.6");
    check_missing(other, {"libm.so.6", "lacks functions"});
    const GpuMeter elsewhere("0000:99:00.0", OOMB_FAKE_NVML_PATH);
    check_missing(elsewhere, {"0000:99:00.0", "error 6"});
    const Pretend no_start("no_start");
    const GpuMeter stopped(kBus, OOMB_FAKE_NVML_PATH);
    check_missing(stopped, {"does not start", "error 9"});
}

}  // namespace oomb::device
