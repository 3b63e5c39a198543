#include "trainer/cpu/libtorch_memory.hpp"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace oomb::trainer {
namespace {

std::atomic<std::int64_t> held_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

// Lies in front of the bytes that LibTorch gets, so that their address is all that it needs to give them back.
struct Allocation {
    c10::DataPtr inner;
    std::int64_t bytes;
};
constexpr std::size_t kFront_bytes = c10::gAlignment;
static_assert(sizeof(Allocation) <= kFront_bytes);

void release(void* data) {
    auto* allocation = reinterpret_cast<Allocation*>(static_cast<std::byte*>(data) - kFront_bytes);
    held_bytes -= allocation->bytes;
    const c10::DataPtr inner = std::move(allocation->inner);
    std::destroy_at(allocation);
}

// Hands on to LibTorch's own allocator and counts.
class CountingAllocator : public c10::Allocator {
  public:
    explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

    c10::DataPtr allocate(std::size_t size) override {
        const auto bytes = static_cast<std::int64_t>(size);
        c10::DataPtr inner = inner_->allocate(kFront_bytes + size);
        auto* front = static_cast<std::byte*>(inner.get());
        std::construct_at(reinterpret_cast<Allocation*>(front), std::move(inner), bytes);
        const std::int64_t held = held_bytes += bytes;
        std::int64_t peak = peak_bytes.load();
        while (peak < held && !peak_bytes.compare_exchange_weak(peak, held)) {
        }
        void* const data = front + kFront_bytes;
        return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    }
    // The raw interface: products of bf16 use it.
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
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
