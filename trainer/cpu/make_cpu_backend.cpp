#include "trainer/cpu/make_cpu_backend.hpp"

#include "trainer/cpu/cpu_backend.hpp"

namespace oomb::trainer {

std::unique_ptr<Backend> make_cpu_backend(const schedule::Plan& plan, int threads) {
    count_libtorch_memory();
    set_compute_threads(threads);
    if (plan.run.compute == DType::kF64) {
        return std::make_unique<CpuBackend<double>>(plan);
    }
    if (plan.run.compute == DType::kBF16) {
        return std::make_unique<CpuBackend<BFloat16>>(plan);
    }
    return std::make_unique<CpuBackend<float>>(plan);
}

}  // namespace oomb::trainer
