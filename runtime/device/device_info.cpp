#include "runtime/device/device_info.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "runtime/core/text_file.hpp"
#include "runtime/device/check.hpp"

namespace oomb::device {

namespace {

constexpr int kSmMajor = 9;  // the kernels use instructions of sm_90a, which no other architecture has
constexpr int kSmMinor = 0;

std::string version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string pci_bus_of(int device) {
    std::array<char, 32> text{};
    OOMB_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device));
    return text.data();
}

}  // namespace

DeviceProbe probe_device() {
    DeviceProbe probe;
    if (cudaDriverGetVersion(&probe.driver_version) != cudaSuccess) {
        probe.driver_version = 0;
    }
    OOMB_CUDA(cudaRuntimeGetVersion(&probe.runtime_version));
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
        probe.visible = visible;
    }
    probe.status = cudaGetDeviceCount(&probe.devices);
    cudaGetLastError();
    if (probe.status == cudaSuccess && probe.devices > 0) {
        cudaDeviceProp properties{};
        OOMB_CUDA(cudaGetDeviceProperties(&properties, 0));
        probe.name = properties.name;
        probe.sm_major = properties.major;
        probe.sm_minor = properties.minor;
        probe.pci_bus = pci_bus_of(0);
    }
    return probe;
}

std::optional<std::string> refusal(const DeviceProbe& probe) {
    if (probe.driver_version == 0) {
        return "no NVIDIA driver found: install one, or run with --device cpu";
    }
    // Within a major version CUDA's runtime works with older drivers.
    if (probe.driver_version / 1000 < probe.runtime_version / 1000) {
        return fmt::format("the NVIDIA driver supports CUDA {}, OOMB was built with CUDA {}: install a newer driver",
                           version_text(probe.driver_version), version_text(probe.runtime_version));
    }
    const bool none = probe.status == cudaErrorNoDevice || (probe.status == cudaSuccess && probe.devices == 0);
    if (none && probe.visible) {
        return fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" leaves no GPU: change or unset it", *probe.visible);
    }
    if (none) {
        return "the NVIDIA driver finds no GPU: check nvidia-smi, or run with --device cpu";
    }
    if (probe.status != cudaSuccess) {
        return fmt::format("the NVIDIA driver does not start: {}", error_text(probe.status));
    }
    if (probe.sm_major != kSmMajor || probe.sm_minor != kSmMinor) {
        return fmt::format(
            "{} is sm_{}{}, OOMB's kernels are for sm_{}{} (H100, H200): choose another GPU with CUDA_VISIBLE_DEVICES",
            probe.name, probe.sm_major, probe.sm_minor, kSmMajor, kSmMinor);
    }
    return std::nullopt;
}

DeviceMemory device_memory() {
    std::size_t free_bytes = 0, total_bytes = 0;
    OOMB_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
}

DeviceInfo open_device() {
    const DeviceProbe probe = probe_device();
    if (const std::optional<std::string> reason = refusal(probe)) {
        throw DeviceUnavailableError(*reason);
    }
    OOMB_CUDA(cudaSetDevice(0));
    DeviceInfo info;
    info.name = probe.name;
    info.sm_major = probe.sm_major;
    info.sm_minor = probe.sm_minor;
    OOMB_CUDA(cudaDeviceGetAttribute(&info.multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    const DeviceMemory memory = device_memory();
    info.free_bytes = memory.free_bytes;
    info.total_bytes = memory.total_bytes;
    info.driver_version = probe.driver_version;
    info.pci_bus = pci_bus_of(0);
    info.numa_node = numa_node_of(info.pci_bus);
    return info;
}

int numa_node_of(const std::string& pci_bus, const std::filesystem::path& sysfs) {
    std::string folder = pci_bus;
    for (char& c : folder) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));  // the driver writes A, sysfs a
    }
    constexpr std::int64_t kMaxBytes = 4096;
    int node = -1;
    try {
        const std::string text = read_text_file(sysfs / "bus/pci/devices" / folder / "numa_node", kMaxBytes);
        std::from_chars(text.data(), text.data() + text.size(), node);
    } catch (const FileError&) {
        return -1;
    }
    return node;
}

}  // namespace oomb::device
