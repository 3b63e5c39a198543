#include "profiler/record/explain.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace oomb::profiler {
namespace {

bool driver_is_older(const Versions& versions) {
    return versions.driver > 0 && versions.driver / 1000 < versions.cupti / 10000;
}

std::string reason(CUptiResult result, const Versions& versions) {
    if (driver_is_older(versions)) {
        return fmt::format(
            "the driver runs CUDA {}, and CUPTI {} needs a driver for CUDA {} or newer; update the driver (CUDA 13.0: "
            "580 "
            "series)",
            cuda_version_text(versions.driver), cupti_version_text(versions.cupti), cupti_version_text(versions.cupti));
    }
    switch (result) {
        case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
            return "another profiler in this process has CUPTI already, and there can be one only; switch it off "
                   "(torch.profiler, "
                   "Nsight Systems, a second oomb-profile), then record again";
        case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
        case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
            return "the driver lets only administrators profile; run as root, give the container CAP_SYS_ADMIN, or "
                   "load the "
                   "driver's module with NVreg_RestrictProfilingToAdminUsers=0";
        case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
            return "this virtual GPU does not allow profiling; its host has to enable it";
        case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
            return "the GPU is in confidential computing mode, in which nothing is recorded";
        case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
            return "this is not supported on a MIG device";
        case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
            return "this is not supported under WSL; record on Linux";
        case CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED:
            return "the program uses CUPTI's old profiling interface, which excludes recording";
        case CUPTI_ERROR_OUT_OF_MEMORY:
            return "there is no memory for recording";
        default:
            break;
    }
    const char* text = nullptr;
    cuptiGetResultString(result, &text);
    return fmt::format("{} ({})", text == nullptr ? "unknown error" : text, static_cast<int>(result));
}

}  // namespace

Versions versions_here() {
    Versions versions;
    cuptiGetVersion(&versions.cupti);
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    int version = 0;
    if (driver != nullptr) {
        if (auto* get = reinterpret_cast<CUresult (*)(int*)>(dlsym(driver, "cuDriverGetVersion")); get != nullptr) {
            get(&version);
        }
    }
    versions.driver = version;
    return versions;
}

std::string cuda_version_text(std::int64_t version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cupti_version_text(std::uint32_t version) {
    return fmt::format("{}.{}", version / 10000, version % 10000 / 100);
}

std::string explain(CUptiResult result, std::string_view call, const Versions& versions) {
    return fmt::format("{}: {}", call, reason(result, versions));
}

}  // namespace oomb::profiler
