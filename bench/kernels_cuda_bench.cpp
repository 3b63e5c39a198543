// Rates of the CUDA kernels that memory bounds, at the shapes of Qwen2.5-7B and 8,192 rows in bfloat16. Bytes are those
// that must move at least once; operands rotate over several copies, so that what one call read is not in L2 for the
// next.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/cross_entropy.hpp"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/optimizer.hpp"
#include "kernels/cuda/pages.hpp"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/rms_norm.hpp"
#include "kernels/cuda/rope.hpp"
#include "kernels/cuda/swiglu.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cuda {
namespace {

constexpr std::int64_t kRows = 8192;
constexpr std::int64_t kHidden = 3584;
constexpr std::int64_t kFfn = 18944;
constexpr std::int64_t kVocab = 152064;
constexpr std::int64_t kHeads = 28;
constexpr std::int64_t kKvHeads = 4;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kPageTokens = 128;
constexpr std::int64_t kWindowTokens = 65536;
constexpr std::int64_t kTileRows = 1024;
constexpr std::int64_t kParameters = std::int64_t{1} << 27;
constexpr int kCopies = 3;
constexpr double kBf16 = 2;
constexpr double kFp32 = 4;

void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fail<Error>("CUDA: {}", cudaGetErrorString(error));
    }
}

// Normally distributed numbers that every operand of the type repeats.
template <class T>
const std::vector<T>& drawn() {
    static const std::vector<T> kValues = [] {
        std::mt19937 generator(1);
        std::normal_distribution<float> normal;
        std::vector<T> result(1 << 22);
        std::generate(result.begin(), result.end(), [&] { return T(normal(generator)); });
        return result;
    }();
    return kValues;
}

// kCopies of a device buffer.
template <class T>
class Operand {
  public:
    explicit Operand(std::int64_t count) : count_(count) {
        const std::int64_t all = count * kCopies;
        check(cudaMalloc(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(all) * sizeof(T)));
        for (std::int64_t at = 0; at < all; at += std::ssize(drawn<T>())) {
            const auto part = static_cast<std::size_t>(std::min<std::int64_t>(all - at, std::ssize(drawn<T>())));
            check(cudaMemcpy(data_ + at, drawn<T>().data(), part * sizeof(T), cudaMemcpyHostToDevice));
        }
    }
    Operand(const Operand&) = delete;
    Operand& operator=(const Operand&) = delete;
    ~Operand() { cudaFree(data_); }
    T* operator()(int call) const { return data_ + call % kCopies * count_; }

  private:
    T* data_ = nullptr;
    std::int64_t count_;
};

// One iteration is kCalls calls between two events.
template <class Call>
void measure(benchmark::State& state, double bytes, const Call& call) {
    constexpr int kCalls = 12;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    for (auto _ : state) {
        check(cudaEventRecord(begin, nullptr));
        for (int i = 0; i < kCalls; ++i) {
            call(i);
        }
        check(cudaEventRecord(end, nullptr));
        check(cudaEventSynchronize(end));
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        state.SetIterationTime(milliseconds * 1e-3 / kCalls);
    }
    state.counters["GB/s"] =
        benchmark::Counter(bytes * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
    check(cudaEventDestroy(begin));
    check(cudaEventDestroy(end));
}

void copy(benchmark::State& state) {
    const Operand<BFloat16> x(kRows * kFfn), y(kRows * kFfn);
    measure(state, 2 * kBf16 * kRows * kFfn, [&](int i) {
        check(cudaMemcpyAsync(y(i), x(i), kRows * kFfn * sizeof(BFloat16), cudaMemcpyDeviceToDevice, nullptr));
    });
}
BENCHMARK(copy)->UseManualTime()->Unit(benchmark::kMicrosecond);

void rms_norm_forward(benchmark::State& state) {
    const Operand<BFloat16> x(kRows * kHidden), weight(kHidden), y(kRows * kHidden);
    measure(state, 2 * kBf16 * kRows * kHidden, [&](int i) {
        cuda::rms_norm_forward<BFloat16>({x(i), weight(i), y(i), kRows, kHidden, 1e-6}, nullptr);
    });
}
BENCHMARK(rms_norm_forward)->UseManualTime()->Unit(benchmark::kMicrosecond);

void rms_norm_backward(benchmark::State& state) {
    const Operand<BFloat16> dy(kRows * kHidden), x(kRows * kHidden), weight(kHidden), dx(kRows * kHidden);
    const Operand<float> d_weight(kHidden);
    const auto bytes = static_cast<std::int64_t>(rms_norm_backward_workspace_bytes<BFloat16>(kRows, kHidden));
    const Operand<float> workspace(bytes / 4);
    measure(state, 4 * kBf16 * kRows * kHidden, [&](int i) {
        cuda::rms_norm_backward<BFloat16>({dy(i), x(i), weight(i), dx(i), d_weight(i), kRows, kHidden, 1e-6, true},
                                          workspace(i), nullptr);
    });
}
BENCHMARK(rms_norm_backward)->UseManualTime()->Unit(benchmark::kMicrosecond);

void rms_norm_per_head(benchmark::State& state) {
    const Operand<BFloat16> x(kRows * kHidden), weight(kHeadDim), y(kRows * kHidden);
    measure(state, 2 * kBf16 * kRows * kHidden, [&](int i) {
        cuda::rms_norm_forward<BFloat16>({x(i), weight(i), y(i), kRows * kHeads, kHeadDim, 1e-6}, nullptr);
    });
}
BENCHMARK(rms_norm_per_head)->UseManualTime()->Unit(benchmark::kMicrosecond);

void swiglu_forward(benchmark::State& state) {
    const Operand<BFloat16> both(2 * kRows * kFfn), act(kRows * kFfn);
    measure(state, 3 * kBf16 * kRows * kFfn, [&](int i) {
        cuda::swiglu_forward<BFloat16>({both(i), both(i) + kFfn, act(i), kRows, kFfn, 2 * kFfn}, nullptr);
    });
}
BENCHMARK(swiglu_forward)->UseManualTime()->Unit(benchmark::kMicrosecond);

void swiglu_backward(benchmark::State& state) {
    const Operand<BFloat16> both(2 * kRows * kFfn), d_both(2 * kRows * kFfn), d_act(kRows * kFfn);
    measure(state, 5 * kBf16 * kRows * kFfn, [&](int i) {
        cuda::swiglu_backward<BFloat16>(
            {d_act(i), both(i), both(i) + kFfn, d_both(i), d_both(i) + kFfn, kRows, kFfn, 2 * kFfn}, nullptr);
    });
}
BENCHMARK(swiglu_backward)->UseManualTime()->Unit(benchmark::kMicrosecond);

void rope_forward(benchmark::State& state) {
    const Operand<BFloat16> x(kRows * kHeads * kHeadDim);
    const Operand<float> frequency(kHeadDim / 2);
    measure(state, 2 * kBf16 * kRows * kHeads * kHeadDim, [&](int i) {
        cuda::rope_forward<BFloat16>({x(i), frequency(i), 1.0, kRows, kHeads, kHeadDim, 100'000, nullptr}, nullptr);
    });
}
BENCHMARK(rope_forward)->UseManualTime()->Unit(benchmark::kMicrosecond);

template <class P>
void attention_merge(benchmark::State& state) {
    constexpr std::int64_t kCount = kRows * kHeads * kHeadDim;
    const Operand<float> o(kCount), lse(kRows * kHeads), lse_part(kRows * kHeads);
    const Operand<P> part(kCount);
    measure(state, (2 * kFp32 + sizeof(P)) * kCount, [&](int i) {
        cuda::attention_merge<float, P>({o(i), lse(i), part(i), lse_part(i), kRows, kHeads, kHeadDim, false}, nullptr);
    });
}
BENCHMARK(attention_merge<float>)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(attention_merge<BFloat16>)->UseManualTime()->Unit(benchmark::kMicrosecond);

void attention_delta(benchmark::State& state) {
    const Operand<BFloat16> d_o(kRows * kHidden), o(kRows * kHidden);
    const Operand<float> delta(kRows * kHeads);
    measure(state, 2 * kBf16 * kRows * kHidden, [&](int i) {
        cuda::attention_delta<BFloat16>({d_o(i), o(i), delta(i), kRows, kHeads, kHeadDim}, nullptr);
    });
}
BENCHMARK(attention_delta)->UseManualTime()->Unit(benchmark::kMicrosecond);

std::vector<std::int32_t> random_tokens(std::int64_t count) {
    std::mt19937 generator(2);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (auto& token : tokens) {
        token = std::uniform_int_distribution<std::int32_t>(0, kVocab - 1)(generator);
    }
    return tokens;
}

void fill(const Operand<std::int32_t>& operand, const std::vector<std::int32_t>& values) {
    for (int i = 0; i < kCopies; ++i) {
        check(cudaMemcpy(operand(i), values.data(), values.size() * sizeof(values[0]), cudaMemcpyHostToDevice));
    }
}

void cross_entropy(benchmark::State& state) {
    const Operand<BFloat16> logits(kTileRows * kVocab);
    const Operand<std::int32_t> targets(kTileRows);
    fill(targets, random_tokens(kTileRows));
    const Operand<double> losses(kTileRows), sum(2);
    measure(state, 2 * kBf16 * kTileRows * kVocab, [&](int i) {
        cuda::cross_entropy<BFloat16>({logits(i), targets(i), nullptr, kTileRows, kVocab, 1e-4},
                                      reinterpret_cast<CrossEntropySum*>(sum(i)), losses(i), nullptr);
    });
}
BENCHMARK(cross_entropy)->UseManualTime()->Unit(benchmark::kMicrosecond);

void embedding_forward(benchmark::State& state) {
    const Operand<BFloat16> table(kVocab * kHidden), y(kRows * kHidden);
    const Operand<std::int32_t> tokens(kRows);
    fill(tokens, random_tokens(kRows));
    measure(state, 2 * kBf16 * kRows * kHidden, [&](int i) {
        cuda::embedding_forward<BFloat16>({tokens(i), table(i), y(i), kRows, kVocab, kHidden}, nullptr);
    });
}
BENCHMARK(embedding_forward)->UseManualTime()->Unit(benchmark::kMicrosecond);

void embedding_backward(benchmark::State& state) {
    const Operand<BFloat16> dy(kRows * kHidden);
    const Operand<float> d_table(kVocab * kHidden);
    const Operand<std::int32_t> tokens(kRows);
    fill(tokens, random_tokens(kRows));
    measure(state, (kBf16 + 2 * kFp32) * kRows * kHidden, [&](int i) {
        cuda::embedding_backward<BFloat16>({tokens(i), dy(i), d_table(i), kRows, kVocab, kHidden}, nullptr);
    });
}
BENCHMARK(embedding_backward)->UseManualTime()->Unit(benchmark::kMicrosecond);

void adamw_step(benchmark::State& state) {
    const Operand<float> weights(kParameters), gradient(kParameters), m(kParameters), v(kParameters);
    const Operand<BFloat16> copied(kParameters);
    measure(state, (7 * kFp32 + kBf16) * kParameters, [&](int i) {
        cuda::adamw_step<BFloat16>({.weights = weights(i),
                                    .gradient = gradient(i),
                                    .m = m(i),
                                    .v = v(i),
                                    .weights_copy = copied(i),
                                    .count = kParameters,
                                    .step = 10,
                                    .learning_rate = 1e-4},
                                   nullptr);
    });
}
BENCHMARK(adamw_step)->UseManualTime()->Unit(benchmark::kMicrosecond);

template <class T>
void sum_of_squares(benchmark::State& state) {
    const Operand<T> values(kParameters);
    const Operand<double> sum(1);
    const Operand<double> workspace(static_cast<std::int64_t>(sum_of_squares_workspace_bytes() / sizeof(double)));
    measure(state, sizeof(T) * kParameters,
            [&](int i) { cuda::sum_of_squares(values(i), kParameters, sum(i), workspace(i), nullptr); });
}
BENCHMARK(sum_of_squares<float>)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(sum_of_squares<BFloat16>)->UseManualTime()->Unit(benchmark::kMicrosecond);

void find_non_finite(benchmark::State& state) {
    const Operand<BFloat16> values(kParameters);
    const Operand<double> index(1);
    measure(state, kBf16 * kParameters, [&](int i) {
        cuda::find_non_finite(values(i), kParameters, reinterpret_cast<std::int64_t*>(index(i)), nullptr);
    });
}
BENCHMARK(find_non_finite)->UseManualTime()->Unit(benchmark::kMicrosecond);

// Frames in an order of no pattern: 5 has no factor in common with the count.
std::vector<std::int32_t> scattered_frames(std::int64_t tokens) {
    const auto pages = static_cast<std::int32_t>(tokens / kPageTokens);
    std::vector<std::int32_t> frames(pages);
    for (std::int32_t i = 0; i < pages; ++i) {
        frames[i] = i * 5 % pages;
    }
    return frames;
}

constexpr std::int64_t kQkvWidth = (kHeads + 2 * kKvHeads) * kHeadDim;

// Argument: 0 with biases (Qwen2.5), 1 with norms (Qwen3).
void qkv_forward(benchmark::State& state) {
    const bool norms = state.range(0) != 0;
    const Operand<BFloat16> qkv(kRows * kQkvWidth), query(kRows * kHeads * kHeadDim), parameter(kHeads * kHeadDim);
    const Operand<BFloat16> k_slab(kRows * kKvHeads * kHeadDim), v_slab(kRows * kKvHeads * kHeadDim);
    const Operand<float> frequency(kHeadDim / 2);
    const Operand<std::int32_t> frames(kRows / kPageTokens);
    fill(frames, scattered_frames(kRows));
    measure(state, 2 * kBf16 * kRows * kQkvWidth, [&](int i) {
        const BFloat16 *bias = norms ? nullptr : parameter(i), *norm = norms ? parameter(i) : nullptr;
        cuda::qkv_forward<BFloat16>(
            {.qkv = qkv(i),
             .q_bias = bias,
             .k_bias = bias,
             .v_bias = bias,
             .q_norm = norm,
             .k_norm = norm,
             .inverse_frequency = frequency(i),
             .query = query(i),
             .kv = {k_slab(i), v_slab(i), frames(i), kPageTokens, kKvHeads, kHeadDim, 100'000, kRows},
             .rows = kRows,
             .query_heads = kHeads,
             .kv_heads = kKvHeads,
             .head_dim = kHeadDim,
             .first_position = 100'000,
             .eps = 1e-6},
            nullptr);
    });
}
BENCHMARK(qkv_forward)->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void qkv_backward(benchmark::State& state) {
    const bool norms = state.range(0) != 0;
    const Operand<BFloat16> qkv(kRows * kQkvWidth), parameter(kHeads * kHeadDim);
    const Operand<float> d_query(kRows * kHeads * kHeadDim), d_parameter(kHeads * kHeadDim), frequency(kHeadDim / 2);
    const Operand<float> k_slab(kRows * kKvHeads * kHeadDim), v_slab(kRows * kKvHeads * kHeadDim);
    const auto bytes = qkv_backward_workspace_bytes<BFloat16>(kRows, kHeads, kKvHeads, kHeadDim);
    const Operand<float> workspace(static_cast<std::int64_t>(bytes / sizeof(float)));
    const Operand<std::int32_t> frames(kRows / kPageTokens);
    fill(frames, scattered_frames(kRows));
    measure(state, (kFp32 + kBf16 + (norms ? kBf16 : 0)) * kRows * kQkvWidth, [&](int i) {
        const BFloat16* norm = norms ? parameter(i) : nullptr;
        float *d_bias = norms ? nullptr : d_parameter(i), *d_norm = norms ? d_parameter(i) : nullptr;
        cuda::qkv_backward<BFloat16>(
            {.qkv = qkv(i),
             .q_norm = norm,
             .k_norm = norm,
             .inverse_frequency = frequency(i),
             .d_query = d_query(i),
             .d_kv = {k_slab(i), v_slab(i), frames(i), kPageTokens, kKvHeads, kHeadDim, 100'000, kRows},
             .d_q_bias = d_bias,
             .d_k_bias = d_bias,
             .d_v_bias = d_bias,
             .d_q_norm = d_norm,
             .d_k_norm = d_norm,
             .rows = kRows,
             .query_heads = kHeads,
             .kv_heads = kKvHeads,
             .head_dim = kHeadDim,
             .first_position = 100'000,
             .eps = 1e-6},
            workspace(i), nullptr);
    });
}
BENCHMARK(qkv_backward)->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void gather_pages(benchmark::State& state) {
    constexpr std::int64_t kCount = kWindowTokens * kKvHeads * kHeadDim;
    const Operand<BFloat16> k_slab(kCount), v_slab(kCount), k(kCount), v(kCount);
    const Operand<std::int32_t> frames(kWindowTokens / kPageTokens);
    fill(frames, scattered_frames(kWindowTokens));
    measure(state, 4 * kBf16 * kCount, [&](int i) {
        cuda::gather_pages<BFloat16>(
            {{k_slab(i), v_slab(i), frames(i), kPageTokens, kKvHeads, kHeadDim, 0, kWindowTokens}, k(i), v(i)},
            nullptr);
    });
}
BENCHMARK(gather_pages)->UseManualTime()->Unit(benchmark::kMicrosecond);

void add_to_gradient_pages(benchmark::State& state) {
    constexpr std::int64_t kCount = kWindowTokens * kKvHeads * kHeadDim;
    const Operand<BFloat16> dk(kCount), dv(kCount);
    const Operand<float> k_slab(kCount), v_slab(kCount);
    const Operand<std::int32_t> frames(kWindowTokens / kPageTokens);
    fill(frames, scattered_frames(kWindowTokens));
    measure(state, 2 * (kBf16 + 2 * kFp32) * kCount, [&](int i) {
        cuda::add_to_gradient_pages<BFloat16>(
            {dk(i),
             dv(i),
             {k_slab(i), v_slab(i), frames(i), kPageTokens, kKvHeads, kHeadDim, 0, kWindowTokens},
             nullptr},
            nullptr);
    });
}
BENCHMARK(add_to_gradient_pages)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace oomb::kernels::cuda
