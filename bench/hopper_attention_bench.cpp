// Attention of 8,192 queries over one window, our Hopper kernels beside cuDNN: steps of the forward kernel side by
// side, backward, and lists of pages. Normally distributed operands in bfloat16; our pages lie in frames of random
// order, cuDNN's window in one piece. "burst" is what the card does after a pause, "sustained" what it holds at its
// power limit: watch `nvidia-smi --query-gpu=power.draw,clocks.sm --format=csv -lms 500` beside.
// docs/hopper-attention.md has the predictions.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/device_memory.hpp"
#include "kernels/cuda/hopper/attention.hpp"
#include "trainer/cuda/cudnn_attention.hpp"

namespace oomb::trainer {
namespace {

namespace hopper = kernels::cuda::hopper;
using hopper::ForwardKernel;

constexpr std::int64_t kRows = 8192;
constexpr std::int64_t kPageTokens = 128;

struct Model {
    const char* name;
    std::int64_t heads, kv_heads, head_dim;
};
constexpr Model kModels[] = {{"28/4 x 128", 28, 4, 128}, {"9/3 x 64", 9, 3, 64}};

template <class E>
DeviceMemory uploaded(const std::vector<E>& values) {
    DeviceMemory memory(static_cast<std::int64_t>(values.size() * sizeof(E)));
    OOMB_CUDA(cudaMemcpy(memory.as<void>(), values.data(), values.size() * sizeof(E), cudaMemcpyHostToDevice));
    return memory;
}

// Seconds of one call: of `seconds` of calls without a pause.
template <class Call>
double time_of_call(double estimate, double seconds, const Call& call) {
    const int calls = std::max(1, static_cast<int>(seconds / estimate));
    cudaEvent_t begin = nullptr, end = nullptr;
    OOMB_CUDA(cudaEventCreate(&begin));
    OOMB_CUDA(cudaEventCreate(&end));
    OOMB_CUDA(cudaEventRecord(begin, nullptr));
    for (int i = 0; i < calls; ++i) {
        call();
    }
    OOMB_CUDA(cudaEventRecord(end, nullptr));
    OOMB_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    OOMB_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    OOMB_CUDA(cudaEventDestroy(begin));
    OOMB_CUDA(cudaEventDestroy(end));
    return milliseconds * 1e-3 / calls;
}

// An iteration of a burst is 30 ms after a pause, a sustained one 0.5 s; the first 3 s of those are not looked at.
template <class Call>
void measure(benchmark::State& state, double flops, bool sustained, const Call& call) {
    const double estimate = time_of_call(flops / 400e12, 0, call);
    if (sustained) {
        time_of_call(estimate, 3, call);
    }
    for (auto _ : state) {
        if (!sustained) {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
        }
        state.SetIterationTime(time_of_call(estimate, sustained ? 0.5 : 0.03, call));
    }
    state.counters["TFLOP/s"] =
        benchmark::Counter(flops * 1e-12 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// A window over which all operands lie on the device. Causal: the queries' own chunk.
struct Window {
    Model model;
    AttentionWindow shape;
    DeviceMemory q, d_o, k, v, frames;

    Window(const Model& of_model, std::int64_t keys)
        : model(of_model),
          shape{kRows, keys, of_model.heads, of_model.kv_heads, of_model.head_dim, keys == kRows},
          q(normal(query_elements(), 1)),
          d_o(normal(query_elements(), 1)),
          k(normal(keys * of_model.kv_heads * of_model.head_dim, 1)),
          v(normal(keys * of_model.kv_heads * of_model.head_dim, 1)),
          frames(uploaded(shuffled())) {}

    std::int64_t query_elements() const { return kRows * model.heads * model.head_dim; }
    std::int64_t key_elements() const { return shape.keys * model.kv_heads * model.head_dim; }
    std::int64_t pages() const { return shape.keys / kPageTokens; }
    double scale() const { return 1 / std::sqrt(static_cast<double>(model.head_dim)); }
    double flops(bool backward) const {
        const auto pairs = static_cast<double>(shape.causal ? kRows * (kRows + 1) / 2 : kRows * shape.keys);
        return pairs * static_cast<double>(model.heads * model.head_dim) * (backward ? 10 : 4);
    }
    // Frames in random order are a permutation of the keys, which changes no result unless a mask counts them.
    std::vector<std::int32_t> shuffled() const {
        std::vector<std::int32_t> all(pages());
        std::iota(all.begin(), all.end(), 0);
        if (!shape.causal) {
            std::shuffle(all.begin(), all.end(), std::mt19937(1));
        }
        return all;
    }
    paging::PageView<const BFloat16> kv() const {
        return {k.as<BFloat16>(),
                v.as<BFloat16>(),
                frames.as<std::int32_t>(),
                kPageTokens,
                model.kv_heads,
                model.head_dim,
                0,
                shape.keys};
    }
    kernels::AttentionMask mask() const { return {.first_query = shape.causal ? 0 : shape.keys}; }
};

std::vector<float> downloaded(const float* from, std::int64_t count) {
    std::vector<float> values(count);
    OOMB_CUDA(cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
}

// cuDNN's bfloat16 output beside ours, the largest difference over the largest magnitude in the last rows.
double difference(const Window& window, const float* ours) {
    CudnnAttention cudnn(nullptr, false);
    const DeviceMemory workspace(std::max(std::int64_t{256}, cudnn.prepare_forward(window.shape)));
    const DeviceMemory o(window.query_elements() * 2), lse(kRows * window.model.heads * 4);
    cudnn.forward(
        window.shape,
        {window.q.as<BFloat16>(), window.k.as<BFloat16>(), window.v.as<BFloat16>(), o.as<BFloat16>(), lse.as<float>()},
        workspace.as<void>());
    const std::int64_t count = 64 * window.model.heads * window.model.head_dim, first = window.query_elements() - count;
    std::vector<BFloat16> theirs(count);
    OOMB_CUDA(cudaMemcpy(theirs.data(), o.as<BFloat16>() + first, count * 2, cudaMemcpyDeviceToHost));
    const auto own = downloaded(ours + first, count);
    float apart = 0, largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(theirs[i]);
        apart = std::isnan(own[i]) ? INFINITY : std::max(apart, std::abs(own[i] - value));
        largest = std::max(largest, std::abs(value));
    }
    return apart / largest;
}

kernels::AttentionForward<BFloat16> forward_of(const Window& window, const Model& model, const DeviceMemory& o,
                                               const DeviceMemory& lse) {
    return {.q = window.q.as<BFloat16>(),
            .kv = window.kv(),
            .o_part = o.as<float>(),
            .lse_part = lse.as<float>(),
            .tokens = kRows,
            .query_heads = model.heads,
            .scale = window.scale(),
            .mask = window.mask()};
}

void forward_ours(benchmark::State& state, const Model& model, std::int64_t keys, ForwardKernel kernel,
                  bool sustained) {
    const Window window(model, keys);
    const DeviceMemory o(window.query_elements() * 4), lse(kRows * model.heads * 4);
    const kernels::AttentionForward<BFloat16> args = forward_of(window, model, o, lse);
    measure(state, window.flops(false), sustained,
            [&] { hopper::attention_forward(args, {.kernel = kernel}, nullptr); });
    state.counters["off cuDNN"] = difference(window, o.as<float>());
}

// Gradient pages are there already and are added to, as in all chunks of a step but the first to touch them.
void backward_ours(benchmark::State& state, const Model& model, std::int64_t keys, hopper::BackwardKernel kernel,
                   bool ordered, bool sustained) {
    const Window window(model, keys);
    const std::vector<float> expected_lse(kRows * model.heads, std::log(static_cast<float>(keys)) + 0.5F);
    const DeviceMemory lse = uploaded(expected_lse), delta(kRows * model.heads * 4);
    const DeviceMemory dq(window.query_elements() * 4), dk(window.key_elements() * 4), dv(window.key_elements() * 4);
    for (const auto& [sum, bytes] : {std::pair{&delta, kRows * model.heads * 4},
                                     {&dq, window.query_elements() * 4},
                                     {&dk, window.key_elements() * 4},
                                     {&dv, window.key_elements() * 4}}) {
        OOMB_CUDA(cudaMemset(sum->as<void>(), 0, static_cast<std::size_t>(bytes)));
    }
    const paging::PageView<float> d_kv{dk.as<float>(),
                                       dv.as<float>(),
                                       window.frames.as<std::int32_t>(),
                                       kPageTokens,
                                       model.kv_heads,
                                       model.head_dim,
                                       0,
                                       keys};
    const kernels::AttentionBackward<BFloat16> args{.q = window.q.as<BFloat16>(),
                                                    .d_o = window.d_o.as<BFloat16>(),
                                                    .lse = lse.as<float>(),
                                                    .delta = delta.as<float>(),
                                                    .kv = window.kv(),
                                                    .dq = dq.as<float>(),
                                                    .d_kv = d_kv,
                                                    .tokens = kRows,
                                                    .query_heads = model.heads,
                                                    .scale = window.scale(),
                                                    .mask = window.mask()};
    const DeviceMemory turns(hopper::backward_turns(kRows, model.heads) * 4);
    measure(state, window.flops(true), sustained, [&] {
        hopper::attention_backward(args, {.kernel = kernel, .turns = ordered ? turns.as<std::int32_t>() : nullptr},
                                   nullptr);
    });
}

void cudnn(benchmark::State& state, const Model& model, std::int64_t keys, bool backward, bool sustained) {
    const Window window(model, keys);
    const DeviceMemory o(window.query_elements() * 2), dq(window.query_elements() * 2);
    const DeviceMemory dk(window.key_elements() * 2), dv(window.key_elements() * 2), lse(kRows * model.heads * 4);
    CudnnAttention library(nullptr, false);
    const DeviceMemory workspace(
        std::max({std::int64_t{256}, library.prepare_forward(window.shape), library.prepare_backward(window.shape)}));
    const CudnnForward forward_args{window.q.as<BFloat16>(), window.k.as<BFloat16>(), window.v.as<BFloat16>(),
                                    o.as<BFloat16>(), lse.as<float>()};
    const CudnnBackward backward_args{window.q.as<BFloat16>(), window.k.as<BFloat16>(),   window.v.as<BFloat16>(),
                                      o.as<BFloat16>(),        window.d_o.as<BFloat16>(), lse.as<float>(),
                                      dq.as<BFloat16>(),       dk.as<BFloat16>(),         dv.as<BFloat16>()};
    library.forward(window.shape, forward_args, workspace.as<void>());
    if (backward) {  // which wants the log-sum-exp in another order; of these sizes all are near ln(keys) + 1/2
        const std::vector<float> values(kRows * model.heads, std::log(static_cast<float>(keys)) + 0.5F);
        OOMB_CUDA(cudaMemcpy(lse.as<void>(), values.data(), values.size() * 4, cudaMemcpyHostToDevice));
    }
    measure(state, window.flops(backward), sustained, [&] {
        if (backward) {
            library.backward(window.shape, backward_args, workspace.as<void>());
        } else {
            library.forward(window.shape, forward_args, workspace.as<void>());
        }
    });
}

// Every page of queries reads `count` pages of the window, drawn for each.
void lists(benchmark::State& state, const Model& model, std::int64_t keys, std::int64_t count) {
    const Window window(model, keys);
    std::vector<std::int32_t> pages;
    std::mt19937 random(2);
    for (std::int64_t i = 0; i < kRows / kPageTokens; ++i) {
        std::vector<std::int32_t> all(window.pages());
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), random);
        std::sort(all.begin(), all.begin() + count);
        pages.insert(pages.end(), all.begin(), all.begin() + count);
    }
    const DeviceMemory listed = uploaded(pages);
    const DeviceMemory o(window.query_elements() * 4), lse(kRows * model.heads * 4);
    const kernels::AttentionForward<BFloat16> args = forward_of(window, model, o, lse);
    const double share = static_cast<double>(count) / static_cast<double>(window.pages());
    measure(state, window.flops(false) * share, true, [&] {
        hopper::attention_forward(args, {.lists = {listed.as<std::int32_t>(), count}}, nullptr);
    });
}

void add(const std::string& name, int iterations, const auto& run) {
    const auto caught = [run](benchmark::State& state) {
        try {
            run(state);
        } catch (const std::exception& error) {  // the others are measured all the same
            state.SkipWithError(error.what());
        }
    };
    benchmark::RegisterBenchmark(name.c_str(), caught)
        ->UseManualTime()
        ->Iterations(iterations)
        ->Unit(benchmark::kMillisecond);
}

void add_window(const Model& model, std::int64_t keys, bool sustained) {
    const std::string where = std::string(model.name) + (keys == kRows ? ", causal " : ", over ") +
                              std::to_string(keys) + (sustained ? ", sustained, " : ", burst, ");
    const int iterations = sustained ? 4 : 3;
    add(where + "forward, cuDNN", iterations,
        [=](benchmark::State& state) { cudnn(state, model, keys, false, sustained); });
    for (const auto& [kernel, name] :
         {std::pair{ForwardKernel::kSimple, "simple"}, {ForwardKernel::kSpecialised, "specialised"}}) {
        add(where + "forward, " + name, iterations,
            [=, kernel = kernel](benchmark::State& state) { forward_ours(state, model, keys, kernel, sustained); });
    }
    add(where + "backward, cuDNN", iterations,
        [=](benchmark::State& state) { cudnn(state, model, keys, true, sustained); });
    using hopper::BackwardKernel;
    for (const auto& [kernel, name] :
         {std::pair{BackwardKernel::kSimple, "simple"}, {BackwardKernel::kSpecialised, "specialised"}}) {
        add(where + "backward, " + name, iterations, [=, kernel = kernel](benchmark::State& state) {
            backward_ours(state, model, keys, kernel, false, sustained);
        });
    }
    add(where + "backward, ordered", iterations, [=](benchmark::State& state) {
        backward_ours(state, model, keys, BackwardKernel::kSpecialised, true, sustained);
    });
}

}  // namespace

void register_all() {
    for (const Model& model : kModels) {
        for (const std::int64_t keys : {kRows, 2 * kRows, 8 * kRows, 32 * kRows}) {
            add_window(model, keys, false);
            add_window(model, keys, true);
        }
        for (const std::int64_t keys : {8 * kRows, 32 * kRows}) {
            add(std::string(model.name) + ", 64 pages of " + std::to_string(keys) +
                    " keys, sustained, forward, specialised",
                4, [=](benchmark::State& state) { lists(state, model, keys, 64); });
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
