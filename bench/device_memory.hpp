#pragma once
// Device memory of a benchmark, filled with random numbers: the card is limited by power, and constant data draw less.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "runtime/core/dtype.hpp"
#include "runtime/device/check.hpp"

namespace oomb {

class DeviceMemory {
  public:
    explicit DeviceMemory(std::int64_t bytes) { OOMB_CUDA(cudaMalloc(&data_, static_cast<std::size_t>(bytes))); }
    DeviceMemory(DeviceMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    DeviceMemory& operator=(DeviceMemory&&) = delete;
    ~DeviceMemory() { cudaFree(data_); }
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

  private:
    void* data_ = nullptr;
};

// `count` normally distributed numbers of this deviation; they repeat after 2^22.
inline DeviceMemory normal(std::int64_t count, float deviation) {
    constexpr std::int64_t kDrawn = 1 << 22;
    static const std::vector<float> kValues = [] {
        std::mt19937 generator(1);
        std::normal_distribution<float> distribution;
        std::vector<float> values(kDrawn);
        for (float& value : values) {
            value = distribution(generator);
        }
        return values;
    }();
    std::vector<BFloat16> scaled(kDrawn);
    for (std::int64_t i = 0; i < kDrawn; ++i) {
        scaled[i] = BFloat16(kValues[i] * deviation);
    }
    DeviceMemory memory(count * static_cast<std::int64_t>(sizeof(BFloat16)));
    for (std::int64_t at = 0; at < count; at += kDrawn) {
        OOMB_CUDA(cudaMemcpy(memory.as<BFloat16>() + at, scaled.data(), std::min(kDrawn, count - at) * sizeof(BFloat16),
                             cudaMemcpyHostToDevice));
    }
    return memory;
}

}  // namespace oomb
