#include "profiler/record/kind_switch.hpp"

#include <cstdint>
#include <utility>

namespace oomb::profiler {
namespace {

enum class Wanted : std::uint8_t {
    kAlways,
    kForOperations,  // where work is attributed to operations
    kForCalls,       // there, and where calls are written
};

struct RecordKind {
    CUpti_ActivityKind kind;
    const char* text;
    bool required = false;    // without it there is nothing to record
    bool from_start = false;  // also before the window begins
    Wanted wanted = Wanted::kAlways;
};
constexpr RecordKind kRecordKinds[] = {
    {.kind = CUPTI_ACTIVITY_KIND_DEVICE, .text = "devices", .from_start = true},
    {.kind = CUPTI_ACTIVITY_KIND_MEMORY2, .text = "allocations", .from_start = true},
    {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .text = "kernels", .required = true},
    {.kind = CUPTI_ACTIVITY_KIND_MEMCPY, .text = "copies", .required = true},
    {.kind = CUPTI_ACTIVITY_KIND_MEMCPY2, .text = "copies between devices"},
    {.kind = CUPTI_ACTIVITY_KIND_MEMSET, .text = "memsets"},
    {.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, .text = "synchronisation"},
    {.kind = CUPTI_ACTIVITY_KIND_OVERHEAD, .text = "overhead"},
    {.kind = CUPTI_ACTIVITY_KIND_MARKER, .text = "NVTX ranges"},
    {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, .text = "operations", .wanted = Wanted::kForOperations},
    // An external correlation is told only beside the record of a call.
    {.kind = CUPTI_ACTIVITY_KIND_RUNTIME, .text = "calls of the runtime", .wanted = Wanted::kForCalls},
    {.kind = CUPTI_ACTIVITY_KIND_DRIVER, .text = "calls of the driver", .wanted = Wanted::kForCalls},
};

bool is_wanted(const RecordKind& kind, const RecordingRequest& request) {
    switch (kind.wanted) {
        case Wanted::kAlways:
            return true;
        case Wanted::kForOperations:
            return request.operations;
        case Wanted::kForCalls:
            return request.operations || request.calls;
    }
    return false;
}

bool is_from_start(const RecordKind& kind, const RecordingRequest& request) {
    const bool begins_the_window = kind.kind == CUPTI_ACTIVITY_KIND_MARKER && request.window.steps.has_value();
    return kind.from_start || begins_the_window;
}

// Calls that give the device nothing to do, and of which programs make as many as launches. Where calls are recorded
// only to attribute work, these need none. Refused: they are recorded, and cost what they cost.
void leave_out_idle_calls() {
    for (const CUpti_CallbackId call :
         {CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecordWithFlags_v11010,
          CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020,
          CUPTI_RUNTIME_TRACE_CBID_cudaEventElapsedTime_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020,
          CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020}) {
        cuptiActivityEnableRuntimeApi(call, 0);
    }
    for (const CUpti_CallbackId call :
         {CUPTI_DRIVER_TRACE_CBID_cuEventRecord, CUPTI_DRIVER_TRACE_CBID_cuEventQuery,
          CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize, CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent}) {
        cuptiActivityEnableDriverApi(call, 0);
    }
}

std::int64_t now_ns() {
    std::uint64_t now = 0;
    cuptiGetTimestamp(&now);
    return now > 0 ? static_cast<std::int64_t>(now) : 1;
}

void enable(const RecordKind& kind, std::vector<Refusal>& refusals) {
    if (const CUptiResult result = cuptiActivityEnable(kind.kind); result != CUPTI_SUCCESS) {
        refusals.push_back({result, kind.text, kind.required});
    }
}

}  // namespace

void KindSwitch::start() {
    if (!request_.window.begins_late()) {
        on();
        return;
    }
    const std::lock_guard lock(mutex_);
    for (const RecordKind& kind : kRecordKinds) {
        if (kind.required || is_from_start(kind, request_)) {
            enable(kind, refusals_);
        }
        if (kind.required) {
            cuptiActivityDisable(kind.kind);
        }
    }
}

void KindSwitch::on() {
    const std::lock_guard lock(mutex_);
    if (begin_ns_ != 0 || end_ns_ != 0) {
        return;
    }
    begin_ns_ = now_ns();
    for (const RecordKind& kind : kRecordKinds) {
        if (is_wanted(kind, request_)) {
            enable(kind, refusals_);
        }
    }
    if (request_.operations && !request_.calls) {
        leave_out_idle_calls();
    }
}

void KindSwitch::off() {
    const std::lock_guard lock(mutex_);
    if (end_ns_ != 0) {
        return;
    }
    for (const RecordKind& kind : kRecordKinds) {
        cuptiActivityDisable(kind.kind);
    }
    end_ns_ = now_ns();
}

std::vector<Refusal> KindSwitch::take_refusals() {
    const std::lock_guard lock(mutex_);
    return std::exchange(refusals_, {});
}

}  // namespace oomb::profiler
