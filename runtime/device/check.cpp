#include "runtime/device/check.hpp"

#include <string_view>

namespace oomb::device {

namespace {

thread_local const ErrorContext* innermost = nullptr;

// The path from the root of the tree, wherever it was built.
std::string_view short_path(std::string_view path) {
    for (const std::string_view room : {"/runtime/", "/trainer/", "/profiler/", "/tests/", "/bench/"}) {
        if (const std::size_t at = path.rfind(room); at != std::string_view::npos) {
            return path.substr(at + 1);
        }
    }
    return path;
}

}  // namespace

ErrorScope::ErrorScope(const ErrorContext& context) : outer_(innermost) {
    innermost = &context;
}
ErrorScope::~ErrorScope() {
    innermost = outer_;
}

std::string error_text(cudaError_t status) {
    return fmt::format("{} ({})", cudaGetErrorName(status), cudaGetErrorString(status));
}

void throw_cuda_error(cudaError_t status, const char* call, const std::source_location& where) {
    cudaGetLastError();
    std::string message =
        fmt::format("{} at {}:{}: {}", call, short_path(where.file_name()), where.line(), error_text(status));
    if (status == cudaErrorMemoryAllocation) {
        message += "; the GPU's memory is full: end other processes on it, or lower --gpu-memory or --context";
    }
    if (innermost != nullptr) {
        message += "; " + innermost->describe();
    }
    throw CudaError(status, message);
}

}  // namespace oomb::device
