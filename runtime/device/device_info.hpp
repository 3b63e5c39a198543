#pragma once
// Which GPU a run uses, and whether it can be used at all.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace oomb::device {

struct DeviceInfo {
    std::string name;  // "NVIDIA H200"
    int sm_major = 0;  // 9
    int sm_minor = 0;  // 0
    int multiprocessors = 0;
    std::int64_t total_bytes = 0;
    std::int64_t free_bytes = 0;  // when asked, with this process's context already taken off
    int driver_version = 0;       // newest CUDA it supports: 13000 is 13.0
    std::string pci_bus;          // "0000:17:00.0"
    int numa_node = -1;           // of host memory nearest to it; -1 unknown
};

// What the driver says before a device is touched.
struct DeviceProbe {
    int driver_version = 0;   // 0: there is no driver
    int runtime_version = 0;  // that OOMB was built with
    cudaError_t status = cudaSuccess;
    int devices = 0;
    std::string name;  // of the first device, like what follows
    int sm_major = 0;
    int sm_minor = 0;
    std::string pci_bus;
    std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
};

DeviceProbe probe_device();

// One line that says why the device cannot be used and what to do; nothing when it can.
std::optional<std::string> refusal(const DeviceProbe& probe);

// Makes the first device that CUDA_VISIBLE_DEVICES leaves current for this thread and creates its context.
// Throws DeviceUnavailableError with the text of refusal(), CudaError for the rest.
DeviceInfo open_device();

// Free and total bytes of the current device, now.
struct DeviceMemory {
    std::int64_t free_bytes = 0;
    std::int64_t total_bytes = 0;
};
DeviceMemory device_memory();

// From sysfs; -1 when the machine has one node or does not say.
int numa_node_of(const std::string& pci_bus, const std::filesystem::path& sysfs = "/sys");

}  // namespace oomb::device
