// Sustained rates of what the CUDA backend leaves to libraries, as it calls them: matrix products by cuBLASLt and
// attention over one window by cuDNN, at the shapes of Qwen2.5-7B with a chunk of 8,192 tokens, bfloat16. Normally
// distributed operands: the card is limited by power, and constant data draw less. library_rates.py sets PyTorch
// beside.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/device_memory.hpp"
#include "runtime/core/units.hpp"
#include "trainer/cuda/cudnn_attention.hpp"
#include "trainer/cuda/matrix_product.hpp"

namespace oomb::trainer {
namespace {

constexpr std::int64_t kRows = 8192;
constexpr std::int64_t kHidden = 3584;
constexpr std::int64_t kFfn = 18944;
constexpr std::int64_t kVocab = 152064;
constexpr std::int64_t kHeads = 28;
constexpr std::int64_t kKvHeads = 4;
constexpr std::int64_t kHeadDim = 128;
constexpr std::size_t kWorkspace_bytes = 32 * kMiB;

constexpr int kWarmUp = 6, kBursts = 6;

// An iteration is a burst of calls, some 50 ms of them, between two events; `flops` are those of one call.
template <class Call>
void measure(benchmark::State& state, double flops, const Call& call) {
    const int calls = std::max(1, static_cast<int>(0.05 * 600e12 / flops));
    cudaEvent_t begin = nullptr, end = nullptr;
    OOMB_CUDA(cudaEventCreate(&begin));
    OOMB_CUDA(cudaEventCreate(&end));
    const auto burst = [&] {
        OOMB_CUDA(cudaEventRecord(begin, nullptr));
        for (int i = 0; i < calls; ++i) {
            call();
        }
        OOMB_CUDA(cudaEventRecord(end, nullptr));
        OOMB_CUDA(cudaEventSynchronize(end));
        float milliseconds = 0;
        OOMB_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
        return milliseconds * 1e-3 / calls;
    };
    for (int i = 0; i < kWarmUp; ++i) {
        burst();
    }
    for (auto _ : state) {
        state.SetIterationTime(burst());
    }
    state.counters["TFLOP/s"] =
        benchmark::Counter(flops * 1e-12 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
    OOMB_CUDA(cudaEventDestroy(begin));
    OOMB_CUDA(cudaEventDestroy(end));
}

struct Linear {
    const char* name;
    std::int64_t rows, outputs, inputs;
};
constexpr Linear kLinears[] = {{"query", kRows, kHidden, kHidden},
                               {"gate and up", kRows, 2 * kFfn, kHidden},
                               {"down", kRows, kHidden, kFfn},
                               {"head", kRows / 2, kVocab, kHidden}};

// y = x W^T, dx = dy W, dW += dy^T x with dW in fp32.
void product(benchmark::State& state, const Linear& linear, ProductForm form) {
    const bool of_weight = form == ProductForm::kWeightGradient;
    const DeviceMemory x = normal(linear.rows * linear.inputs, 1),
                       weights = normal(linear.outputs * linear.inputs, 0.02F);
    const DeviceMemory dy = normal(linear.rows * linear.outputs, 1), workspace(kWorkspace_bytes);
    const DeviceMemory dw(of_weight ? linear.outputs * linear.inputs * 4 : 4);
    OOMB_CUDA(cudaMemset(dw.as<void>(), 0, of_weight ? linear.outputs * linear.inputs * 4 : 4));
    const MatrixOperand of_x{x.as<void>(), linear.inputs}, of_w{weights.as<void>(), linear.inputs};
    const MatrixOperand of_dy{dy.as<void>(), linear.outputs};
    MatrixProducts products(nullptr, workspace.as<void>(), kWorkspace_bytes, false);
    Product work{.form = form, .input = DType::kBF16, .output = DType::kBF16};
    switch (form) {
        case ProductForm::kOutput:
            work.m = linear.rows, work.n = linear.outputs, work.k = linear.inputs;
            work.a = of_x, work.b = of_w, work.d = dy.as<void>();
            break;
        case ProductForm::kInputGradient:
            work.m = linear.rows, work.n = linear.inputs, work.k = linear.outputs;
            work.a = of_dy, work.b = of_w, work.d = x.as<void>();
            break;
        case ProductForm::kWeightGradient:
            work.m = linear.outputs, work.n = linear.inputs, work.k = linear.rows;
            work.a = of_dy, work.b = of_x, work.addend = dw.as<void>(), work.d = dw.as<void>();
            work.output = DType::kF32;
            break;
    }
    work.d_stride = work.n;
    measure(state, 2.0 * static_cast<double>(linear.rows * linear.outputs * linear.inputs),
            [&] { products.multiply(work); });
}

void attention(benchmark::State& state, std::int64_t keys, bool backward) {
    const AttentionWindow window{kRows, keys, kHeads, kKvHeads, kHeadDim, keys == kRows};
    const DeviceMemory q = normal(kRows * kHeads * kHeadDim, 1), d_o = normal(kRows * kHeads * kHeadDim, 1);
    const DeviceMemory k = normal(keys * kKvHeads * kHeadDim, 1), v = normal(keys * kKvHeads * kHeadDim, 1);
    const DeviceMemory o(kRows * kHeads * kHeadDim * 2), dq(kRows * kHeads * kHeadDim * 2);
    const DeviceMemory dk(keys * kKvHeads * kHeadDim * 2), dv(keys * kKvHeads * kHeadDim * 2);
    const DeviceMemory log_sum_exp(kRows * kHeads * 4);
    CudnnAttention cudnn(nullptr, false);
    const DeviceMemory workspace(
        std::max({std::int64_t{256}, cudnn.prepare_forward(window), cudnn.prepare_backward(window)}));
    const CudnnForward forward_args{q.as<BFloat16>(), k.as<BFloat16>(), v.as<BFloat16>(), o.as<BFloat16>(),
                                    log_sum_exp.as<float>()};
    const CudnnBackward backward_args{q.as<BFloat16>(),  k.as<BFloat16>(),   v.as<BFloat16>(),
                                      o.as<BFloat16>(),  d_o.as<BFloat16>(), log_sum_exp.as<float>(),
                                      dq.as<BFloat16>(), dk.as<BFloat16>(),  dv.as<BFloat16>()};
    cudnn.forward(window, forward_args, workspace.as<void>());
    if (backward) {  // which wants the log-sum-exp in another order; of these sizes all are near ln(keys) + 1/2
        std::vector<float> values(kRows * kHeads, std::log(static_cast<float>(keys)) + 0.5F);
        OOMB_CUDA(cudaMemcpy(log_sum_exp.as<float>(), values.data(), values.size() * 4, cudaMemcpyHostToDevice));
    }
    const auto pairs = static_cast<double>(window.causal ? kRows * (kRows + 1) / 2 : kRows * keys);
    measure(state, pairs * kHeads * kHeadDim * (backward ? 10 : 4), [&] {
        if (backward) {
            cudnn.backward(window, backward_args, workspace.as<void>());
        } else {
            cudnn.forward(window, forward_args, workspace.as<void>());
        }
    });
}

void add(const std::string& name, const auto& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseManualTime()
        ->Iterations(kBursts)
        ->Unit(benchmark::kMillisecond);
}

}  // namespace

void register_all() {
    for (const Linear& linear : kLinears) {
        for (const auto& [form, name] : {std::pair{ProductForm::kOutput, "output"},
                                         {ProductForm::kInputGradient, "input gradient"},
                                         {ProductForm::kWeightGradient, "weight gradient"}}) {
            add(std::string(linear.name) + ", " + name,
                [linear, form](benchmark::State& state) { product(state, linear, form); });
        }
    }
    for (const std::int64_t keys : {kRows, 2 * kRows, 4 * kRows, 8 * kRows}) {
        for (const bool backward : {false, true}) {
            add("attention " + std::string(keys == kRows ? "causal " : "over ") + std::to_string(keys) +
                    (backward ? ", backward" : ", forward"),
                [keys, backward](benchmark::State& state) { attention(state, keys, backward); });
        }
    }
}

}  // namespace oomb::trainer

int main(int argc, char** argv) {
    oomb::trainer::register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
