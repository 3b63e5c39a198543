#include "profiler/file/records.hpp"

namespace oomb::profiler {

std::string_view name_of(CopyKind kind) {
    switch (kind) {
        case CopyKind::kUnknown:
            return "other";
        case CopyKind::kHostToDevice:
            return "host to device";
        case CopyKind::kDeviceToHost:
            return "device to host";
        case CopyKind::kDeviceToDevice:
            return "within the device";
        case CopyKind::kHostToHost:
            return "host to host";
        case CopyKind::kPeer:
            return "between devices";
    }
    return "";
}

std::string_view name_of(MemoryKind kind) {
    switch (kind) {
        case MemoryKind::kUnknown:
            return "other";
        case MemoryKind::kPageable:
            return "pageable";
        case MemoryKind::kPinned:
            return "pinned";
        case MemoryKind::kDevice:
            return "device";
        case MemoryKind::kArray:
            return "array";
        case MemoryKind::kManaged:
            return "managed";
        case MemoryKind::kDeviceStatic:
            return "static device";
        case MemoryKind::kManagedStatic:
            return "static managed";
    }
    return "";
}

std::string_view name_of(OverheadKind kind) {
    switch (kind) {
        case OverheadKind::kUnknown:
            return "other";
        case OverheadKind::kCompiler:
            return "compiling kernels";
        case OverheadKind::kBufferFlush:
            return "flushing records";
        case OverheadKind::kInstrumentation:
            return "recording calls";
        case OverheadKind::kResource:
            return "memory for recording";
        case OverheadKind::kModuleLoading:
            return "loading modules";
        case OverheadKind::kFunctionLoading:
            return "loading kernels";
        case OverheadKind::kCommandBufferFull:
            return "full command buffers";
        case OverheadKind::kBufferRequest:
            return "asking for a buffer";
        case OverheadKind::kManagedMemory:
            return "starting managed memory's counters";
    }
    return "";
}

}  // namespace oomb::profiler
