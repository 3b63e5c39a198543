#include "profiler/record/decode.hpp"

#include <cstring>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

constexpr std::uint32_t kCopyCountSince = 130000;  // CUpti_ActivityMemcpy6

// CUPTI's structs are packed more loosely than the compiler may assume of a pointer into a buffer: copied out.
template <class T>
T as(const CUpti_Activity& activity) {
    T record;
    std::memcpy(&record, &activity, sizeof record);
    return record;
}

// Of a struct that newer versions appended to, only the front is there in older ones.
template <class T, class Member>
T front(const CUpti_Activity& activity, Member T::*last) {
    T record{};
    const auto* base = reinterpret_cast<const std::byte*>(&record);
    const auto* end = reinterpret_cast<const std::byte*>(&(record.*last)) + sizeof(Member);
    std::memcpy(&record, &activity, static_cast<std::size_t>(end - base));
    return record;
}

// CUPTI's numbers are 64-bit patterns; what our fields cannot say is a fault of the record, and becomes 0, "not known".
std::int64_t number(std::uint64_t value) {
    return value <= static_cast<std::uint64_t>(kMostNumber) ? static_cast<std::int64_t>(value) : 0;
}

template <class E>
E enumerator(std::uint64_t value) {
    return value < static_cast<std::uint64_t>(kValues<E>) ? static_cast<E>(value) : E{};
}

CopyKind copy_kind(std::uint8_t kind) {
    switch (kind) {
        case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
        case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
            return CopyKind::kHostToDevice;
        case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
        case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
            return CopyKind::kDeviceToHost;
        case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
        case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
        case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
        case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
            return CopyKind::kDeviceToDevice;
        case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
            return CopyKind::kHostToHost;
        case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
            return CopyKind::kPeer;
        default:
            return CopyKind::kUnknown;
    }
}

OverheadKind overhead_kind(CUpti_ActivityOverheadKind kind) {
    switch (kind) {
        case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
            return OverheadKind::kCompiler;
        case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
            return OverheadKind::kBufferFlush;
        case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
            return OverheadKind::kInstrumentation;
        case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
            return OverheadKind::kResource;
        case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
            return OverheadKind::kModuleLoading;
        case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
            return OverheadKind::kFunctionLoading;
        case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
            return OverheadKind::kCommandBufferFull;
        case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
            return OverheadKind::kBufferRequest;
        case CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT:
            return OverheadKind::kManagedMemory;
        default:
            return OverheadKind::kUnknown;
    }
}

}  // namespace

Decoder::Decoder(std::uint32_t cupti_version, RecordSink sink, bool calls)
    : version_(cupti_version), sink_(std::move(sink)), calls_(calls) {
    if (version_ < kOldestCupti) {
        fail<UnsupportedError>("CUPTI {} is older than {}, the oldest whose records this recorder reads", version_,
                               kOldestCupti);
    }
}

void Decoder::decode_buffer(std::uint8_t* buffer, std::size_t valid_bytes) {
    CUpti_Activity* activity = nullptr;
    const auto* end = buffer + valid_bytes;
    CUptiResult result = CUPTI_SUCCESS;
    while (valid_bytes > 0 && (result = cuptiActivityGetNextRecord(buffer, valid_bytes, &activity)) == CUPTI_SUCCESS) {
        decode(*activity);
    }
    if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_MAX_LIMIT_REACHED) {
        const auto* last = activity == nullptr ? buffer : reinterpret_cast<const std::uint8_t*>(activity);
        unreadable_bytes_ += end - last;
    }
}

void Decoder::decode(const CUpti_Activity& activity) {
    switch (activity.kind) {
        case CUPTI_ACTIVITY_KIND_DEVICE:
            return device(activity);
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
            return kernel(activity);
        case CUPTI_ACTIVITY_KIND_MEMCPY:
            return copy(activity);
        case CUPTI_ACTIVITY_KIND_MEMCPY2:
            return peer_copy(activity);
        case CUPTI_ACTIVITY_KIND_MEMSET:
            return memset(activity);
        case CUPTI_ACTIVITY_KIND_MEMORY2:
            return memory(activity);
        case CUPTI_ACTIVITY_KIND_MARKER:
            return marker(activity);
        case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
            return synchronization(activity);
        case CUPTI_ACTIVITY_KIND_OVERHEAD:
            return overhead(activity);
        case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
            return external_correlation(activity);
        case CUPTI_ACTIVITY_KIND_RUNTIME:
        case CUPTI_ACTIVITY_KIND_DRIVER:
            return call(activity);
        default:
            return;
    }
}

void Decoder::device(const CUpti_Activity& activity) {
    const auto from = front(activity, &CUpti_ActivityDevice5::name);
    saw_device_ = true;
    sink_.add(Device{.device = from.id,
                     .name = intern(from.name),
                     .memory_bytes = number(from.globalMemorySize),
                     .multiprocessors = from.numMultiprocessors});
}

void Decoder::kernel(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivityKernel8>(activity);
    sink_.add(Kernel{.begin_ns = number(from.start),
                     .end_ns = number(from.end),
                     .place = {from.deviceId, from.contextId, from.streamId},
                     .correlation = from.correlationId,
                     .name = intern(from.name),
                     .grid_x = static_cast<std::uint32_t>(from.gridX),
                     .grid_y = static_cast<std::uint32_t>(from.gridY),
                     .grid_z = static_cast<std::uint32_t>(from.gridZ),
                     .block_x = static_cast<std::uint32_t>(from.blockX),
                     .block_y = static_cast<std::uint32_t>(from.blockY),
                     .block_z = static_cast<std::uint32_t>(from.blockZ),
                     .registers = from.registersPerThread,
                     .static_shared_bytes = static_cast<std::uint32_t>(from.staticSharedMemory),
                     .dynamic_shared_bytes = static_cast<std::uint32_t>(from.dynamicSharedMemory),
                     .graph_node = from.graphNodeId});
}

void Decoder::copy(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivityMemcpy5>(activity);
    const std::uint64_t pieces =
        version_ >= kCopyCountSince ? as<CUpti_ActivityMemcpy6>(activity).copyCount : std::uint64_t{1};
    sink_.add(Copy{.begin_ns = number(from.start),
                   .end_ns = number(from.end),
                   .place = {from.deviceId, from.contextId, from.streamId},
                   .correlation = from.correlationId,
                   .kind = copy_kind(from.copyKind),
                   .from = enumerator<MemoryKind>(from.srcKind),
                   .to = enumerator<MemoryKind>(from.dstKind),
                   .bytes = number(from.bytes),
                   .pieces = number(pieces),
                   .graph_node = from.graphNodeId});
}

void Decoder::peer_copy(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivityMemcpyPtoP4>(activity);
    sink_.add(Copy{.begin_ns = number(from.start),
                   .end_ns = number(from.end),
                   .place = {from.deviceId, from.contextId, from.streamId},
                   .correlation = from.correlationId,
                   .kind = CopyKind::kPeer,
                   .from = enumerator<MemoryKind>(from.srcKind),
                   .to = enumerator<MemoryKind>(from.dstKind),
                   .bytes = number(from.bytes),
                   .graph_node = from.graphNodeId});
}

void Decoder::memset(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivityMemset3>(activity);
    sink_.add(Memset{.begin_ns = number(from.start),
                     .end_ns = number(from.end),
                     .place = {from.deviceId, from.contextId, from.streamId},
                     .correlation = from.correlationId,
                     .bytes = number(from.bytes),
                     .graph_node = from.graphNodeId});
}

void Decoder::memory(const CUpti_Activity& activity) {
    const auto from = front(activity, &CUpti_ActivityMemory3::isAsync);
    sink_.add(Memory{.at_ns = number(from.timestamp),
                     .allocates = from.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION
                                      ? std::uint8_t{1}
                                      : std::uint8_t{0},
                     .kind = enumerator<MemoryKind>(from.memoryKind),
                     .address = from.address,
                     .bytes = number(from.bytes),
                     .place = {from.deviceId, from.contextId, from.streamId},
                     .correlation = from.correlationId});
}

void Decoder::marker(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivityMarker2>(activity);
    if (number(from.timestamp) < markers_from_ns_) {
        return;
    }
    const auto flags = static_cast<std::uint32_t>(from.flags);
    const MarkerKind kind = (flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0 ? MarkerKind::kBegin
                            : (flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0 ? MarkerKind::kEnd
                                                                            : MarkerKind::kInstant;
    const bool of_thread = from.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
    // The end of a range has no name.
    sink_.add(Marker{.at_ns = number(from.timestamp),
                     .kind = kind,
                     .id = from.id,
                     .thread = of_thread ? from.objectId.pt.threadId : 0,
                     .name = intern(from.name),
                     .domain = intern(from.domain)});
}

void Decoder::synchronization(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivitySynchronization>(activity);
    sink_.add(Synchronization{.begin_ns = number(from.start),
                              .end_ns = number(from.end),
                              .kind = enumerator<SynchronizationKind>(from.type),
                              .context = from.contextId,
                              .stream = from.streamId,
                              .event = from.cudaEventId,
                              .correlation = from.correlationId});
}

void Decoder::overhead(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivityOverhead>(activity);
    const bool of_thread = from.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
    sink_.add(Overhead{.begin_ns = number(from.start),
                       .end_ns = number(from.end),
                       .kind = overhead_kind(from.overheadKind),
                       .thread = of_thread ? from.objectId.pt.threadId : 0});
}

// Other tools in the process may push correlations of other kinds.
void Decoder::external_correlation(const CUpti_Activity& activity) {
    const auto from = as<CUpti_ActivityExternalCorrelation>(activity);
    if (from.externalKind == kOperationCorrelation) {
        sink_.add(OperationMark{.correlation = from.correlationId, .operation = from.externalId});
    }
}

void Decoder::call(const CUpti_Activity& activity) {
    if (!calls_) {
        return;
    }
    const auto from = as<CUpti_ActivityAPI>(activity);
    const bool of_driver = from.kind == CUPTI_ACTIVITY_KIND_DRIVER;
    const char* name = nullptr;
    if (cuptiGetCallbackName(of_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, from.cbid, &name) !=
        CUPTI_SUCCESS) {
        name = nullptr;
    }
    sink_.add(ApiCall{.begin_ns = number(from.start),
                      .end_ns = number(from.end),
                      .kind = of_driver ? ApiKind::kDriver : ApiKind::kRuntime,
                      .thread = from.threadId,
                      .correlation = from.correlationId,
                      .name = intern(name),
                      .result = from.returnValue});
}

StringId Decoder::intern(const char* text) {
    return text == nullptr ? 0 : sink_.intern(text);
}

}  // namespace oomb::profiler
