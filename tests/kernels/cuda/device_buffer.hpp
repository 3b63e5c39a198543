#pragma once
// Device memory of a test, filled from and read back to the host.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/core/error.hpp"

namespace oomb::kernels::test {

inline void require_cuda(cudaError_t error, const char* call) {
    if (error != cudaSuccess) {
        fail<Error>("{}: {}", call, cudaGetErrorString(error));
    }
}

template <class E>
class DeviceBuffer {
  public:
    explicit DeviceBuffer(const std::vector<E>& values) : DeviceBuffer(values.size()) {
        copy(values.data(), cudaMemcpyHostToDevice);
    }
    // All bits set: NaN in any floating type, so that a kernel that reads what it did not write is found out.
    explicit DeviceBuffer(std::size_t count) : count_(count) {
        require_cuda(cudaMalloc(&data_, bytes() + 1), "cudaMalloc");
        require_cuda(cudaMemset(data_, 0xff, bytes() + 1), "cudaMemset");
    }
    DeviceBuffer(const DeviceBuffer& other) : DeviceBuffer(other.count_) {
        copy(other.data_, cudaMemcpyDeviceToDevice);
    }
    DeviceBuffer& operator=(DeviceBuffer other) {
        std::swap(data_, other.data_);
        std::swap(count_, other.count_);
        return *this;
    }
    ~DeviceBuffer() { cudaFree(data_); }

    E* data() { return static_cast<E*>(data_); }
    std::size_t bytes() const { return count_ * sizeof(E); }
    std::vector<E> values() const {
        std::vector<E> result(count_);
        require_cuda(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
        return result;
    }

  private:
    void copy(const void* from, cudaMemcpyKind kind) {
        require_cuda(cudaMemcpy(data_, from, bytes(), kind), "cudaMemcpy");
    }

    void* data_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace oomb::kernels::test
