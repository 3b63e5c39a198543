#include "runtime/device/gpu_meter.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace oomb::device {
namespace {

// From nvml.h, which belongs to the toolkit's optional parts: status 0 is success, a device is an opaque pointer.
using Status = int;
using Device = void*;
constexpr unsigned kClockSm = 1;
constexpr unsigned kTemperatureGpu = 0;
constexpr unsigned long long kNotAvailable = ~0ULL;

struct Memory {
    unsigned long long total, free, used;
};
struct Process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(Process) == 24);

}  // namespace

struct GpuMeter::Nvml {
    void* library = nullptr;
    Device device = nullptr;
    Status (*init)() = nullptr;
    Status (*shutdown)() = nullptr;
    Status (*handle)(const char*, Device*) = nullptr;
    // Null where this version does not have them.
    Status (*energy)(Device, unsigned long long* millijoules) = nullptr;
    Status (*power)(Device, unsigned* milliwatts) = nullptr;
    Status (*clock)(Device, unsigned which, unsigned* mhz) = nullptr;
    Status (*temperature)(Device, unsigned which, unsigned* celsius) = nullptr;
    Status (*memory)(Device, Memory*) = nullptr;
    Status (*processes)(Device, unsigned* count, Process*) = nullptr;

    Nvml() = default;
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml() {
        if (initialized) {
            shutdown();
        }
        if (library != nullptr) {
            dlclose(library);
        }
    }
    bool initialized = false;

    template <class Function>
    void find(const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
    }
    void find_all() {
        find("nvmlInit_v2", init);
        find("nvmlShutdown", shutdown);
        find("nvmlDeviceGetHandleByPciBusId_v2", handle);
        find("nvmlDeviceGetTotalEnergyConsumption", energy);
        find("nvmlDeviceGetPowerUsage", power);
        find("nvmlDeviceGetClockInfo", clock);
        find("nvmlDeviceGetTemperature", temperature);
        find("nvmlDeviceGetMemoryInfo", memory);
        find("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    }

    // What `function` writes, where there is such a function and it succeeds.
    template <class Value>
    std::optional<Value> value(Status (*function)(Device, Value*)) const {
        Value found{};
        return function != nullptr && function(device, &found) == 0 ? std::optional(found) : std::nullopt;
    }
    std::optional<unsigned> value(Status (*function)(Device, unsigned, unsigned*), unsigned which) const {
        unsigned found = 0;
        return function != nullptr && function(device, which, &found) == 0 ? std::optional(found) : std::nullopt;
    }
};

GpuMeter::GpuMeter(const std::string& pci_bus, const std::string& library) : nvml_(std::make_unique<Nvml>()) {
    const std::string reason = open(pci_bus, library);
    if (!reason.empty()) {
        missing_ = fmt::format("no energy, clock and memory readings of the GPU: {}", reason);
        nvml_.reset();
        return;
    }
    if (const auto memory = nvml_->value(nvml_->memory)) {
        used_at_start_bytes_ = static_cast<std::int64_t>(memory->used);
    }
}

GpuMeter::~GpuMeter() = default;

// What went wrong; empty: nothing.
std::string GpuMeter::open(const std::string& pci_bus, const std::string& library) {
    nvml_->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (nvml_->library == nullptr) {
        return fmt::format("{} (NVML, part of the NVIDIA driver) is not there", library);
    }
    nvml_->find_all();
    if (nvml_->init == nullptr || nvml_->shutdown == nullptr || nvml_->handle == nullptr) {
        return fmt::format("{} lacks functions of NVML", library);
    }
    if (const Status status = nvml_->init(); status != 0) {
        return fmt::format("NVML does not start (error {})", status);
    }
    nvml_->initialized = true;
    if (const Status status = nvml_->handle(pci_bus.c_str(), &nvml_->device); status != 0) {
        return fmt::format("NVML does not know the GPU at {} (error {})", pci_bus, status);
    }
    return {};
}

DeviceReading GpuMeter::read() const {
    constexpr double kMilli = 1e-3;
    DeviceReading reading;
    reading.missing = missing_;
    if (!nvml_) {
        return reading;
    }
    if (const auto millijoules = nvml_->value(nvml_->energy)) {
        reading.joules = kMilli * static_cast<double>(*millijoules);
    }
    if (const auto milliwatts = nvml_->value(nvml_->power)) {
        reading.watts = kMilli * *milliwatts;
    }
    if (const auto mhz = nvml_->value(nvml_->clock, kClockSm)) {
        reading.clock_mhz = *mhz;
    }
    if (const auto celsius = nvml_->value(nvml_->temperature, kTemperatureGpu)) {
        reading.celsius = *celsius;
    }
    reading.process_bytes = process_bytes();
    if (reading.process_bytes) {
        peak_process_bytes_ = std::max(peak_process_bytes_.value_or(0), *reading.process_bytes);
    }
    return reading;
}

std::optional<std::int64_t> GpuMeter::process_bytes() const {
    constexpr unsigned kMostProcesses = 256;
    std::vector<Process> processes(kMostProcesses);
    unsigned count = kMostProcesses;
    if (nvml_->processes != nullptr && nvml_->processes(nvml_->device, &count, processes.data()) == 0) {
        processes.resize(std::min(count, kMostProcesses));
        const auto own = std::ranges::find(processes, static_cast<unsigned>(getpid()), &Process::pid);
        if (own != processes.end() && own->used_bytes != kNotAvailable) {
            return static_cast<std::int64_t>(own->used_bytes);
        }
    }
    if (const auto memory = nvml_->value(nvml_->memory)) {
        return std::max<std::int64_t>(0, static_cast<std::int64_t>(memory->used) - used_at_start_bytes_);
    }
    return std::nullopt;
}

}  // namespace oomb::device
