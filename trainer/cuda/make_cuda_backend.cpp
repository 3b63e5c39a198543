#include "trainer/cuda/make_cuda_backend.hpp"

#include "trainer/cuda/cuda_backend.hpp"

namespace oomb::trainer {

std::unique_ptr<Backend> make_cuda_backend(const schedule::Plan& plan, StartProgress progress) {
    CudaBackendOptions options;
    options.progress = std::move(progress);
    if (plan.run.compute == DType::kF32) {
        return std::make_unique<CudaBackend<float>>(plan, std::move(options));
    }
    return std::make_unique<CudaBackend<BFloat16>>(plan, std::move(options));
}

}  // namespace oomb::trainer
