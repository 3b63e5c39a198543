#pragma once
// Checked calls of the CUDA runtime: OOMB_CUDA(cudaEventRecord(event, stream));

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>

#include "runtime/core/error.hpp"

namespace oomb::device {

// A call failed: "cudaMalloc(&p, n) at runtime/device/x.cpp:12: cudaErrorMemoryAllocation (out of memory)", and then
// what the innermost ErrorScope of the thread says. Kernels and copies fail late: the call that reports is then not the
// one that caused it.
class CudaError : public Error {
  public:
    CudaError(cudaError_t code, const std::string& message) : Error(message), code_(code) {}
    cudaError_t code() const { return code_; }
    // The driver wants memory for itself too: a context, kernels' code. Where that is not there, the run does not fit.
    ExitCode exit_code() const override {
        return code_ == cudaErrorMemoryAllocation ? ExitCode::kDoesNotFit : ExitCode::kFailed;
    }

  private:
    cudaError_t code_;
};

// No usable GPU: no driver, one that is too old, none visible, or not of the architecture that OOMB is built for.
class DeviceUnavailableError : public Error {
  public:
    using Error::Error;
};

// What a thread is doing (operation id, state of the arenas). Asked only when a call fails, so that naming an operation
// costs a step nothing.
class ErrorContext {
  public:
    virtual ~ErrorContext() = default;
    virtual std::string describe() const = 0;
};

// Makes `context` part of the message of every CudaError that this thread raises while the scope lives. Scopes nest;
// the innermost speaks. `context` must outlive it.
class ErrorScope {
  public:
    explicit ErrorScope(const ErrorContext& context);
    ~ErrorScope();
    ErrorScope(const ErrorScope&) = delete;
    ErrorScope& operator=(const ErrorScope&) = delete;

  private:
    const ErrorContext* outer_;
};

// Throws CudaError and clears the runtime's "last error", so that a later check does not report it again.
[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call, const std::source_location& where);

inline void check(cudaError_t status, const char* call,
                  const std::source_location& where = std::source_location::current()) {
    if (status != cudaSuccess) [[unlikely]] {
        throw_cuda_error(status, call, where);
    }
}

// "cudaErrorMemoryAllocation (out of memory)"
std::string error_text(cudaError_t status);

}  // namespace oomb::device

#define OOMB_CUDA(call) ::oomb::device::check((call), #call)
