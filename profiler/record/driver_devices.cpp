#include "profiler/record/driver_devices.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <array>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

template <class Function>
Function* entry(void* driver, const char* name) {
    return driver == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(driver, name));
}

}  // namespace

void add_driver_devices(const RecordSink& sink) {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    auto* const get_count = entry<CUresult(int*)>(driver, "cuDeviceGetCount");
    auto* const get_name = entry<CUresult(char*, int, CUdevice)>(driver, "cuDeviceGetName");
    auto* const get_memory = entry<CUresult(std::size_t*, CUdevice)>(driver, "cuDeviceTotalMem_v2");
    auto* const get_attribute = entry<CUresult(int*, CUdevice_attribute, CUdevice)>(driver, "cuDeviceGetAttribute");
    if (get_count == nullptr || get_name == nullptr || get_memory == nullptr || get_attribute == nullptr) {
        return;
    }
    int count = 0;
    if (get_count(&count) != CUDA_SUCCESS) {
        return;
    }
    // A device's handle is its number.
    for (CUdevice device = 0; device < count; ++device) {
        std::array<char, 256> name{};
        std::size_t memory = 0;
        int multiprocessors = 0;
        if (get_name(name.data(), static_cast<int>(name.size()) - 1, device) == CUDA_SUCCESS &&
            get_memory(&memory, device) == CUDA_SUCCESS &&
            get_attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) == CUDA_SUCCESS) {
            sink.add(Device{.device = static_cast<std::uint32_t>(device),
                            .name = sink.intern(name.data()),
                            .memory_bytes = static_cast<std::int64_t>(memory),
                            .multiprocessors = static_cast<std::uint32_t>(multiprocessors)});
        }
    }
}

std::uint32_t begin_driver() {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver == nullptr) {
        fail<UnsupportedError>("there is no CUDA driver: {}", dlerror());
    }
    auto* const begin = entry<CUresult(unsigned int)>(driver, "cuInit");
    auto* const get_count = entry<CUresult(int*)>(driver, "cuDeviceGetCount");
    auto* const get_text = entry<CUresult(CUresult, const char**)>(driver, "cuGetErrorString");
    if (begin == nullptr || get_count == nullptr || get_text == nullptr) {
        fail<UnsupportedError>("libcuda.so.1 is no CUDA driver");
    }
    int count = 0;
    CUresult result = begin(0);
    result = result == CUDA_SUCCESS ? get_count(&count) : result;
    if (result != CUDA_SUCCESS) {
        const char* text = nullptr;
        get_text(result, &text);
        fail<UnsupportedError>("CUDA does not begin: {} ({})", text == nullptr ? "unknown error" : text,
                               static_cast<int>(result));
    }
    return static_cast<std::uint32_t>(count);
}

}  // namespace oomb::profiler
