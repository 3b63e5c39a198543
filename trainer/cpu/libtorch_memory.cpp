#include "trainer/cpu/libtorch_memory.hpp"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace oomb::trainer {
namespace {

std::atomic<std::int64_t> held_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

struct Allocation {
    c10::DataPtr inner;
    std::int64_t bytes;
};

void release(void* context) {
    const std::unique_ptr<Allocation> allocation(static_cast<Allocation*>(context));
    held_bytes -= allocation->bytes;
}

// Hands on to LibTorch's own allocator and counts.
class CountingAllocator : public c10::Allocator {
  public:
    explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

    c10::DataPtr allocate(std::size_t size) override {
        const auto bytes = static_cast<std::int64_t>(size);
        auto allocation = std::make_unique<Allocation>(Allocation{inner_->allocate(size), bytes});
        const std::int64_t held = held_bytes += bytes;
        std::int64_t peak = peak_bytes.load();
        while (peak < held && !peak_bytes.compare_exchange_weak(peak, held)) {
        }
        void* const data = allocation->inner.get();
        return {data, allocation.release(), &release, c10::Device(c10::DeviceType::CPU)};
    }
    void copy_data(void* to, const void* from, std::size_t count) const override { inner_->copy_data(to, from, count); }

  private:
    c10::Allocator* inner_;
};

}  // namespace

void count_libtorch_memory() {
    static CountingAllocator counting(c10::GetCPUAllocator());
    constexpr std::uint8_t kAboveDefault = 1;
    c10::SetCPUAllocator(&counting, kAboveDefault);
}

std::int64_t libtorch_peak_bytes() {
    return peak_bytes.load();
}

void set_compute_threads(int threads) {
    at::set_num_threads(threads);
    omp_set_num_threads(threads);
}

}  // namespace oomb::trainer
