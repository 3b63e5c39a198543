#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/trace/operation_marks.hpp"
#include "tests/profiler/gpu_work.hpp"

namespace oomb::profiler {
namespace {

void check(cudaError_t error, int line) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "gpu_work.cu:%d: %s\n", line, cudaGetErrorString(error));
        std::exit(1);
    }
}
#define CHECK_CUDA(call) check(call, __LINE__)

__global__ void wait_kernel(std::int64_t duration_ns) {
    std::int64_t begin = 0, now = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < duration_ns);
}

__global__ void add_kernel(float* values, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        values[i] += 1.0F;
    }
}

constexpr std::int64_t kMillisecond_ns = 1'000'000;

// Everything that work needs, so that nothing is allocated between what is timed.
struct Memory {
    std::size_t bytes;
    char *device = nullptr, *host = nullptr;
    explicit Memory(std::size_t size) : bytes(size) {
        CHECK_CUDA(cudaMalloc(&device, bytes));
        CHECK_CUDA(cudaHostAlloc(&host, bytes, cudaHostAllocDefault));
        std::fill_n(host, bytes, 1);
    }
    Memory(const Memory&) = delete;
    ~Memory() {
        cudaFree(device);
        cudaFreeHost(host);
    }
};

cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

void wait_for(std::int64_t ns, cudaStream_t stream, KnownWork& work) {
    wait_kernel<<<1, 1, 0, stream>>>(ns);
    CHECK_CUDA(cudaGetLastError());
    work.kernels += 1;
}

void copy_in(Memory& memory, std::size_t bytes, cudaStream_t stream, KnownWork& work) {
    CHECK_CUDA(cudaMemcpyAsync(memory.device, memory.host, bytes, cudaMemcpyHostToDevice, stream));
    work.to_device += 1;
    work.to_device_bytes += static_cast<std::int64_t>(bytes);
}

double seconds(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, from, to));
    return 1e-3 * ms;
}

}  // namespace

// Copies begin with the kernel and go on long after it: what is hidden is what both share.
KnownWork do_overlapping() {
    constexpr std::size_t kPiece_bytes = std::size_t{256} << 20;
    constexpr int kPieces = 16;
    KnownWork work;
    Memory memory(kPiece_bytes);
    const cudaStream_t compute = make_stream(), copies = make_stream();
    cudaEvent_t event[4];
    for (cudaEvent_t& e : event) {
        CHECK_CUDA(cudaEventCreate(&e));
    }
    // Modules are loaded and clocks are up.
    wait_for(20 * kMillisecond_ns, compute, work);
    copy_in(memory, kPiece_bytes, copies, work);
    CHECK_CUDA(cudaDeviceSynchronize());
    const double before = 0;
    CHECK_CUDA(cudaEventRecord(event[0], compute));
    wait_for(40 * kMillisecond_ns, compute, work);
    CHECK_CUDA(cudaEventRecord(event[1], compute));
    CHECK_CUDA(cudaEventRecord(event[2], copies));
    for (int i = 0; i < kPieces; ++i) {
        copy_in(memory, kPiece_bytes, copies, work);
    }
    CHECK_CUDA(cudaEventRecord(event[3], copies));
    CHECK_CUDA(cudaDeviceSynchronize());
    const double kernel_end = seconds(event[0], event[1]), copy_begin = seconds(event[0], event[2]),
                 copy_end = seconds(event[0], event[3]);
    work.compute_seconds = kernel_end;
    work.to_device_seconds = copy_end - copy_begin;
    work.hidden_seconds = std::max(0.0, std::min(kernel_end, copy_end) - std::max(before, copy_begin));
    CHECK_CUDA(cudaMemsetAsync(memory.device, 1, 12'345, compute));
    work.memset_bytes += 12'345;
    CHECK_CUDA(cudaMemcpyAsync(memory.host, memory.device, 100'003, cudaMemcpyDeviceToHost, compute));
    work.to_host += 1;
    work.to_host_bytes += 100'003;
    CHECK_CUDA(cudaDeviceSynchronize());
    return work;
}

KnownWork do_batches() {
    constexpr std::size_t kPieces = 64, kUnit_bytes = 4096;
    KnownWork work;
    Memory memory(kPieces * kPieces * kUnit_bytes);
    const cudaStream_t stream = make_stream();
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<std::size_t> sizes;
    std::size_t at = 0;
    for (std::size_t i = 0; i < kPieces; ++i) {
        to.push_back(memory.device + at);
        from.push_back(memory.host + at);
        sizes.push_back((i % 8 + 1) * kUnit_bytes);
        at += sizes.back() + kUnit_bytes;  // with gaps: pieces do not join
    }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    for (int batch = 0; batch < 3; ++batch) {
        CHECK_CUDA(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), kPieces, &attributes, &first, 1, stream));
        for (const std::size_t bytes : sizes) {
            work.to_device += 1;
            work.to_device_bytes += static_cast<std::int64_t>(bytes);
        }
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    return work;
}

KnownWork do_threads() {
    constexpr int kThreads = 4, kRounds = 50;
    std::vector<KnownWork> works(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&work = works[static_cast<std::size_t>(t)], t] {
            Memory memory(1 << 16);
            const cudaStream_t stream = make_stream();
            for (int i = 0; i < kRounds; ++i) {
                copy_in(memory, static_cast<std::size_t>(1000 + 100 * t + i), stream, work);
                wait_for(kMillisecond_ns / 10, stream, work);
            }
            CHECK_CUDA(cudaStreamSynchronize(stream));
        });
    }
    KnownWork all;
    for (int t = 0; t < kThreads; ++t) {
        threads[static_cast<std::size_t>(t)].join();
        all.kernels += works[static_cast<std::size_t>(t)].kernels;
        all.to_device += works[static_cast<std::size_t>(t)].to_device;
        all.to_device_bytes += works[static_cast<std::size_t>(t)].to_device_bytes;
    }
    return all;
}

KnownWork do_graphs() {
    constexpr int kLaunches = 10;
    KnownWork once, work;
    Memory memory(1 << 20);
    const cudaStream_t stream = make_stream();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    copy_in(memory, 777'777, stream, once);
    for (int i = 0; i < 3; ++i) {
        wait_for(kMillisecond_ns / 10, stream, once);
    }
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&ready, graph, 0));
    for (int i = 0; i < kLaunches; ++i) {
        CHECK_CUDA(cudaGraphLaunch(ready, stream));
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    work.kernels = kLaunches * once.kernels;
    work.to_device = kLaunches * once.to_device;
    work.to_device_bytes = kLaunches * once.to_device_bytes;
    return work;
}

KnownWork do_marked(int operations) {
    KnownWork work;
    Memory memory(1 << 20);
    const cudaStream_t stream = make_stream();
    const nvtxDomainHandle_t domain = nvtxDomainCreateA(trace::kMarkDomain);
    for (int i = 0; i < operations; ++i) {
        nvtxEventAttributes_t range{};
        range.version = NVTX_VERSION;
        range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        range.category = trace::kMarkCategory;
        range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        range.payload.ullValue = static_cast<std::uint64_t>(i);  // part i of kind 0
        range.messageType = NVTX_MESSAGE_TYPE_ASCII;
        range.message.ascii = "operation";
        nvtxDomainRangePushEx(domain, &range);
        wait_for(kMillisecond_ns, stream, work);
        add_kernel<<<16, 256, 0, stream>>>(reinterpret_cast<float*>(memory.device), 4096);
        work.kernels += 1;
        copy_in(memory, 5'000, stream, work);
        nvtxDomainRangePop(domain);
    }
    wait_for(kMillisecond_ns, stream, work);  // of no operation
    CHECK_CUDA(cudaDeviceSynchronize());
    return work;
}

namespace {

nvtxRangeId_t begin_step(StepRanges ranges, int step) {
    if (ranges == StepRanges::kStarted) {
        return nvtxRangeStartA("step");
    }
    if (ranges == StepRanges::kPushed) {
        nvtxRangePushA("step");
        return 0;
    }
    static const nvtxDomainHandle_t domain = nvtxDomainCreateA(trace::kMarkDomain);
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.category = trace::kStepCategory;
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = static_cast<std::uint64_t>(step);
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = "step";
    nvtxDomainRangePushEx(domain, &range);
    return reinterpret_cast<std::uint64_t>(domain);
}

void end_step(StepRanges ranges, nvtxRangeId_t begun) {
    if (ranges == StepRanges::kStarted) {
        nvtxRangeEnd(begun);
    } else if (ranges == StepRanges::kPushed) {
        nvtxRangePop();
    } else {
        nvtxDomainRangePop(reinterpret_cast<nvtxDomainHandle_t>(begun));
    }
}

}  // namespace

KnownWork do_steps(int steps, StepRanges ranges) {
    KnownWork work;
    Memory memory(1 << 20);
    const cudaStream_t stream = make_stream();
    for (int step = 1; step <= steps; ++step) {
        const nvtxRangeId_t begun = begin_step(ranges, step);
        nvtxRangePushA("within");
        for (int i = 0; i < 3; ++i) {
            wait_for(2 * kMillisecond_ns, stream, work);
        }
        nvtxRangePop();
        copy_in(memory, static_cast<std::size_t>(kStepBytes * step), stream, work);
        end_step(ranges, begun);
        wait_for(kMillisecond_ns, stream, work);  // of no step
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    return work;
}

KnownWork do_for_seconds(int seconds) {
    KnownWork work;
    const cudaStream_t stream = make_stream();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < end) {
        wait_for(kMillisecond_ns, stream, work);
        CHECK_CUDA(cudaStreamSynchronize(stream));
    }
    return work;
}

KnownWork do_copies(int seconds) {
    KnownWork work;
    Memory memory(std::size_t{64} << 20);
    const cudaStream_t stream = make_stream();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < end) {
        CHECK_CUDA(cudaMemcpyAsync(memory.device, memory.host, memory.bytes, cudaMemcpyHostToDevice, stream));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        work.to_device += 1;
        work.to_device_bytes += static_cast<std::int64_t>(memory.bytes);
    }
    return work;
}

KnownWork do_tiny(int launches) {
    KnownWork work;
    constexpr int kCount = 4096;
    Memory memory(kCount * sizeof(float));
    const cudaStream_t stream = make_stream();
    const auto launch = [&] {
        add_kernel<<<kCount / 256, 256, 0, stream>>>(reinterpret_cast<float*>(memory.device), kCount);
        work.kernels += 1;
    };
    launch();  // modules are loaded
    CHECK_CUDA(cudaStreamSynchronize(stream));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) {
        launch();
    }
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaStreamSynchronize(stream));
    work.compute_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return work;
}

void work_until_killed() {
    const KnownWork work = do_for_seconds(3);
    std::printf("%s\n", as_json(work).c_str());
    std::fflush(stdout);
    std::raise(SIGKILL);
    std::abort();
}

std::string as_json(const KnownWork& work) {
    char text[512];
    std::snprintf(
        text, sizeof text,
        "{\"kernels\":%lld,\"memset_bytes\":%lld,\"to_device\":%lld,\"to_device_bytes\":%lld,\"to_host\":%lld,"
        "\"to_host_bytes\":%lld,\"compute_seconds\":%.9f,\"to_device_seconds\":%.9f,\"hidden_seconds\":%.9f}",
        static_cast<long long>(work.kernels), static_cast<long long>(work.memset_bytes),
        static_cast<long long>(work.to_device), static_cast<long long>(work.to_device_bytes),
        static_cast<long long>(work.to_host), static_cast<long long>(work.to_host_bytes), work.compute_seconds,
        work.to_device_seconds, work.hidden_seconds);
    return text;
}

}  // namespace oomb::profiler
