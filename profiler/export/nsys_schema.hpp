#pragma once
// Tables, columns and numbers of enumerations as Nsight Systems 2026.4 documents them for its SQLite export (schema
// version 3.28.1; https://docs.nvidia.com/nsight-systems/UserGuide, "SQLite Schema Reference").

#include <cstdint>

#include "profiler/file/records.hpp"

namespace oomb::profiler {

// SQL that makes the tables and fills those of the enumerations. Columns that no recording fills are there, NULL.
extern const char* const kNsysSchema;

// Values of NVTX_EVENTS.eventType.
enum class NsysEventType : std::int64_t { kMark = 34, kPushPopRange = 59, kStartEndRange = 60, kDomainCreate = 75 };
enum class NsysSeverity : std::int64_t { kInfo = 1, kWarning = 2, kError = 3 };

std::int64_t nsys_number(CopyKind kind);  // ENUM_CUDA_MEMCPY_OPER
std::int64_t nsys_number(MemoryKind kind);
std::int64_t nsys_number(SynchronizationKind kind);
std::int64_t nsys_number(OverheadKind kind);
std::int64_t nsys_number(ApiKind kind);  // ENUM_NSYS_EVENT_CLASS

// Bits 24 to 47 are the process, 0 to 23 the thread; above them nsys has machine and VM, which are 0 here.
std::int64_t nsys_global_pid(std::int64_t process);
std::int64_t nsys_global_tid(std::int64_t process, std::uint32_t thread);

}  // namespace oomb::profiler
