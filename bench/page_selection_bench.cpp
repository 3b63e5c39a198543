// Times of what choosing pages costs a chunk of 8K tokens and a layer of Qwen2.5-7B: means, scores, selection, and the
// lists of a window the other way about. The argument is the number of pages before the chunk: 64K tokens to 1M.
#include <benchmark/benchmark.h>

#include <numeric>

#include "bench/device_memory.hpp"
#include "kernels/cuda/page_selection.hpp"
#include "runtime/device/stream.hpp"

namespace oomb::kernels::cuda {
namespace {

constexpr std::int64_t kRows = 8'192, kPageTokens = 128, kQueryPages = kRows / kPageTokens;
constexpr std::int64_t kHeads = 28, kKvHeads = 4, kHeadDim = 128, kListed = 64;

constexpr int kCalls = 10;
constexpr double kSeconds = 0.5 / kCalls;  // the time of an iteration is that of a call

// One iteration is kCalls calls between two events. `flops` of a call, if any.
template <class Call>
void measure(benchmark::State& state, double flops, const Call& call) {
    const device::Stream stream;
    const device::Event begin(device::Timing::kOn), end(device::Timing::kOn);
    call(stream.get());
    for (auto _ : state) {
        stream.enqueue_record(begin.get());
        for (int i = 0; i < kCalls; ++i) {
            call(stream.get());
        }
        stream.enqueue_record(end.get());
        stream.wait_idle();
        state.SetIterationTime(1e-3 * device::milliseconds_between(begin, end) / kCalls);
    }
    if (flops > 0) {
        state.counters["TFLOP/s"] = benchmark::Counter(1e-12 * flops, benchmark::Counter::kIsIterationInvariantRate);
    }
}

void page_means(benchmark::State& state) {
    constexpr std::int64_t kElements = kRows * kKvHeads * kHeadDim;
    const DeviceMemory keys = normal(kElements, 1.0F), means = normal(kElements / kPageTokens, 1.0F);
    const DeviceMemory frames(kQueryPages * static_cast<std::int64_t>(sizeof(std::int32_t)));
    std::vector<std::int32_t> in_order(kQueryPages);
    std::iota(in_order.begin(), in_order.end(), 0);
    OOMB_CUDA(
        cudaMemcpy(frames.as<void>(), in_order.data(), in_order.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice));
    const auto* slab = keys.as<const BFloat16>();
    measure(state, 0, [&](cudaStream_t stream) {
        cuda::page_means<BFloat16>(
            {{slab, slab, frames.as<const std::int32_t>(), kPageTokens, kKvHeads, kHeadDim, 0, kRows},
             means.as<BFloat16>()},
            stream);
    });
}
BENCHMARK(page_means)->UseManualTime()->MinTime(kSeconds)->Unit(benchmark::kMicrosecond);

void page_scores(benchmark::State& state) {
    const std::int64_t pages = state.range(0);
    const DeviceMemory q = normal(kRows * kHeads * kHeadDim, 1.0F), means = normal(pages * kKvHeads * kHeadDim, 0.3F);
    const DeviceMemory scores(kQueryPages * pages * static_cast<std::int64_t>(sizeof(float)));
    const DeviceMemory workspace(
        static_cast<std::int64_t>(page_scores_workspace_bytes<BFloat16>(kRows, kKvHeads, kHeadDim)));
    // Two passes over products with a sum of queries in two parts.
    const double flops =
        2.0 * 2.0 * 2.0 * static_cast<double>(kRows * kKvHeads * kHeadDim) * static_cast<double>(pages);
    measure(state, flops, [&](cudaStream_t stream) {
        cuda::page_scores<BFloat16>({.q = q.as<const BFloat16>(),
                                     .means = means.as<const BFloat16>(),
                                     .scores = scores.as<float>(),
                                     .tokens = kRows,
                                     .page_tokens = kPageTokens,
                                     .pages = pages,
                                     .query_heads = kHeads,
                                     .kv_heads = kKvHeads,
                                     .head_dim = kHeadDim,
                                     .scale = page_score_scale(kHeadDim)},
                                    workspace.as<void>(), stream);
    });
}
BENCHMARK(page_scores)
    ->RangeMultiplier(2)
    ->Range(512, 8'192)
    ->UseManualTime()
    ->MinTime(kSeconds)
    ->Unit(benchmark::kMicrosecond);

void select_pages(benchmark::State& state) {
    const std::int64_t pages = state.range(0);
    const DeviceMemory scores = normal(2 * kQueryPages * pages, 1.0F);  // read as float
    const DeviceMemory lists(kQueryPages * kListed * static_cast<std::int64_t>(sizeof(std::int32_t)));
    measure(state, 0, [&](cudaStream_t stream) {
        cuda::select_pages<float>({scores.as<const float>(), lists.as<std::int32_t>(), kQueryPages, pages, kListed},
                                  stream);
    });
}
BENCHMARK(select_pages)
    ->RangeMultiplier(2)
    ->Range(512, 8'192)
    ->UseManualTime()
    ->MinTime(kSeconds)
    ->Unit(benchmark::kMicrosecond);

// Four query pages of 64 entries each, over a window of 256 pages.
void invert_lists(benchmark::State& state) {
    constexpr std::int64_t kGroup = 4, kPages = kGroup * kListed;
    std::vector<std::int32_t> entries(kPages);
    std::iota(entries.begin(), entries.end(), 0);
    constexpr auto kNumber = static_cast<std::int64_t>(sizeof(std::int32_t));
    const DeviceMemory lists(kPages * kNumber), offsets((kPages + 1) * kNumber), readers(kPages * kNumber);
    OOMB_CUDA(cudaMemcpy(lists.as<void>(), entries.data(), kPages * kNumber, cudaMemcpyHostToDevice));
    measure(state, 0, [&](cudaStream_t stream) {
        cuda::invert_lists({lists.as<const std::int32_t>(), offsets.as<std::int32_t>(), readers.as<std::int32_t>(),
                            kGroup, kListed, kPages},
                           stream);
    });
}
BENCHMARK(invert_lists)->UseManualTime()->MinTime(kSeconds)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace oomb::kernels::cuda
