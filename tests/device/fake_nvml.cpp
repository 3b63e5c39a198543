// A library with the few functions of NVML that the meter calls; OOMB_FAKE_NVML says what it pretends.
//   "no_start"    nvmlInit_v2 fails
//   "container"   processes have ids that no process here has, and the GPU's use grows from call to call
//   "silent"      everything that measures fails
//   otherwise     fixed values, and this process among the running ones

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace {

bool pretends(std::string_view what) {
    const char* mode = std::getenv("OOMB_FAKE_NVML");
    return mode != nullptr && mode == what;
}

int gpu;  // its address is the handle
unsigned long long used_bytes = 1000;

template <class T>
int answer(const void* device, T* out, T value) {
    if (device != &gpu || pretends("silent")) {
        return 3;  // not supported
    }
    *out = value;
    return 0;
}

}  // namespace

extern "C" {

struct Memory {
    unsigned long long total, free, used;
};
struct Process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2() {
    used_bytes = 1000;
    return pretends("no_start") ? 9 : 0;
}
int nvmlShutdown() {
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
    if (std::string_view(bus) != "0000:17:00.0") {
        return 6;  // not found
    }
    *device = &gpu;
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
    return answer(device, millijoules, 123'456'789ULL);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    return answer(device, milliwatts, 687'500U);
}
int nvmlDeviceGetClockInfo(void* device, unsigned which, unsigned* mhz) {
    return answer(device, mhz, which == 1 ? 1440U : 0U);
}
int nvmlDeviceGetTemperature(void* device, unsigned which, unsigned* celsius) {
    return answer(device, celsius, which == 0 ? 61U : 0U);
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
    const Memory now{100'000, 100'000 - used_bytes, used_bytes};
    used_bytes += pretends("container") ? 5000 : 0;
    return answer(device, memory, now);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
    if (device != &gpu || *count < 2 || pretends("silent")) {
        return 7;  // insufficient size
    }
    *count = 2;
    processes[0] = {1, 77, 0, 0};
    processes[1] = {pretends("container") ? 2 : static_cast<unsigned>(getpid()), 4242, 0, 0};
    return 0;
}

}  // extern "C"
