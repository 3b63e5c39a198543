#include "runtime/device/device_info.hpp"

#include <doctest/doctest.h>

#include "runtime/device/check.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"

namespace oomb::device {

namespace {

DeviceProbe h200() {
    DeviceProbe probe;
    probe.driver_version = 13000;
    probe.runtime_version = 13000;
    probe.devices = 1;
    probe.name = "NVIDIA H200";
    probe.sm_major = 9;
    return probe;
}

std::string reason(const DeviceProbe& probe) {
    const std::optional<std::string> text = refusal(probe);
    REQUIRE(text);
    CHECK(text->find('\n') == std::string::npos);
    return *text;
}

}  // namespace

TEST_CASE("an H200 with a current driver is taken") {
    CHECK_FALSE(refusal(h200()));
    DeviceProbe newer = h200();
    newer.driver_version = 13020;
    CHECK_FALSE(refusal(newer));
}

TEST_CASE("an older minor version of the driver is taken, an older major version is not") {
    DeviceProbe probe = h200();
    probe.runtime_version = 13010;
    CHECK_FALSE(refusal(probe));
    probe.driver_version = 12080;
    probe.status = cudaErrorInsufficientDriver;
    test::check_contains(reason(probe), {"CUDA 12.8", "CUDA 13.1", "install a newer driver"});
}

TEST_CASE("no driver, no GPU, hidden GPUs are told apart") {
    DeviceProbe probe = h200();
    probe.devices = 0;
    probe.status = cudaErrorNoDevice;
    test::check_contains(reason(probe), {"finds no GPU"});
    probe.visible = "";
    test::check_contains(reason(probe), {"CUDA_VISIBLE_DEVICES=\"\"", "unset"});
    probe.driver_version = 0;
    probe.status = cudaErrorInsufficientDriver;
    test::check_contains(reason(probe), {"no NVIDIA driver"});
}

TEST_CASE("another architecture and an error of the driver are named") {
    DeviceProbe probe = h200();
    probe.name = "NVIDIA A100";
    probe.sm_major = 8;
    test::check_contains(reason(probe), {"NVIDIA A100 is sm_80", "sm_90"});
    probe = h200();
    probe.status = cudaErrorSystemNotReady;
    test::check_contains(reason(probe), {"does not start", "cudaErrorSystemNotReady"});
}

TEST_CASE("this machine's device opens, or the refusal is one line") {
    try {
        const DeviceInfo info = open_device();
        CHECK(info.sm_major == 9);
        CHECK(info.free_bytes > 0);
        CHECK(info.free_bytes <= info.total_bytes);
    } catch (const DeviceUnavailableError& error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        CHECK(error.exit_code() == ExitCode::kFailed);
    }
}

TEST_CASE("the NUMA node of a device comes from sysfs") {
    const test::ScratchFolder sysfs;
    sysfs.write("bus/pci/devices/0000:ab:00.0/numa_node", "1\n");
    sysfs.write("bus/pci/devices/0000:02:00.0/numa_node", "-1\n");
    CHECK(numa_node_of("0000:AB:00.0", sysfs.path()) == 1);
    CHECK(numa_node_of("0000:02:00.0", sysfs.path()) == -1);
    CHECK(numa_node_of("0000:03:00.0", sysfs.path()) == -1);
}

}  // namespace oomb::device
