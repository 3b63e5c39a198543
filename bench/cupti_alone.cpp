// CUPTI's records of kernels and nothing else: buffers come back and go out again unread. Put into a program by
// CUDA_INJECTION64_PATH, as the recorder is; what the program takes longer is what any recorder over CUPTI costs at
// least.
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace {

constexpr std::size_t kBuffer_bytes = std::size_t{1} << 17;  // as the recorder's
constexpr std::size_t kBuffers = 256;
constexpr std::align_val_t kAlignment{8};

struct Pool {
    std::mutex mutex;
    std::vector<std::uint8_t*> free;
};

// Never destroyed: CUPTI calls back as late as the driver's end.
Pool& pool() {
    static auto* made = new Pool;
    return *made;
}

std::uint8_t* new_buffer() {
    return new (kAlignment) std::uint8_t[kBuffer_bytes]();
}

void CUPTIAPI on_requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
    const std::lock_guard lock(pool().mutex);
    if (pool().free.empty()) {
        *buffer = new_buffer();
    } else {
        *buffer = pool().free.back();
        pool().free.pop_back();
    }
    *bytes = kBuffer_bytes;
    *most_records = 0;
}

void CUPTIAPI on_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
    const std::lock_guard lock(pool().mutex);
    pool().free.push_back(buffer);
}

void require(CUptiResult result, const char* call) {
    if (result != CUPTI_SUCCESS) {
        std::fprintf(stderr, "cupti_alone: %s: CUPTI error %d\n", call, static_cast<int>(result));
        std::exit(1);
    }
}

}  // namespace

// The name is the driver's. 1: loaded.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    for (std::size_t i = 0; i < kBuffers; ++i) {
        pool().free.push_back(new_buffer());
    }
    require(cuptiActivityRegisterCallbacks(on_requested, on_completed), "cuptiActivityRegisterCallbacks");
    require(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
    return 1;
}
