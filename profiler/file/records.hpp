#pragma once
// What a profile holds: one struct per kind of record. Times are nanoseconds of CUPTI's clock (since 1970), the same
// for host and devices; 0 is "not known", which CUPTI says of what had not ended when recording did. The list of a
// struct's fields (`fields`) is its form in the file, see docs/profile-format.md: a signed 64-bit field is a time, size
// or count and never negative, an unsigned one is any pattern of bits.

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>

namespace oomb::profiler {

using StringId = std::uint64_t;  // of a StringRecord that came before; 0: no name

enum class CopyKind : std::uint8_t {
    kUnknown,
    kHostToDevice,
    kDeviceToHost,
    kDeviceToDevice,
    kHostToHost,
    kPeer,  // between two devices
};
inline constexpr int kCopyKinds = 6;
std::string_view name_of(CopyKind kind);

enum class MemoryKind : std::uint8_t {
    kUnknown,
    kPageable,
    kPinned,
    kDevice,
    kArray,
    kManaged,
    kDeviceStatic,
    kManagedStatic,
};
inline constexpr int kMemoryKinds = 8;
std::string_view name_of(MemoryKind kind);

enum class MarkerKind : std::uint8_t { kInstant, kBegin, kEnd };
enum class SynchronizationKind : std::uint8_t { kUnknown, kEvent, kStreamWaitsForEvent, kStream, kContext };
enum class OverheadKind : std::uint8_t {
    kUnknown,
    kCompiler,
    kBufferFlush,
    kInstrumentation,
    kResource,
    kModuleLoading,
    kFunctionLoading,
    kCommandBufferFull,
    kBufferRequest,
    kManagedMemory,
};
std::string_view name_of(OverheadKind kind);

enum class ApiKind : std::uint8_t { kRuntime, kDriver };

// Where on a device something ran.
struct Place {
    std::uint32_t device = 0, context = 0, stream = 0;
    bool operator==(const Place&) const = default;
};

struct StringRecord {
    StringId id = 0;
    std::string text;
    bool operator==(const StringRecord&) const = default;
};

struct Device {
    std::uint32_t device = 0;
    StringId name = 0;
    std::int64_t memory_bytes = 0;
    std::uint32_t multiprocessors = 0;
    bool operator==(const Device&) const = default;
};

struct Kernel {
    std::int64_t begin_ns = 0, end_ns = 0;
    Place place = {};
    std::uint32_t correlation = 0;  // of the call that launched it
    StringId name = 0;              // as the compiler mangled it
    std::uint32_t grid_x = 0, grid_y = 0, grid_z = 0, block_x = 0, block_y = 0, block_z = 0;
    std::uint32_t registers = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0;
    std::uint64_t graph_node = 0;  // 0: not launched by a graph
    bool operator==(const Kernel&) const = default;
};

struct Copy {
    std::int64_t begin_ns = 0, end_ns = 0;
    Place place = {};
    std::uint32_t correlation = 0;
    CopyKind kind = CopyKind::kUnknown;
    MemoryKind from = MemoryKind::kUnknown, to = MemoryKind::kUnknown;
    std::int64_t bytes = 0;
    std::int64_t pieces = 1;  // of a batch of copies that one record tells of
    std::uint64_t graph_node = 0;
    bool operator==(const Copy&) const = default;
};

struct Memset {
    std::int64_t begin_ns = 0, end_ns = 0;
    Place place = {};
    std::uint32_t correlation = 0;
    std::int64_t bytes = 0;
    std::uint64_t graph_node = 0;
    bool operator==(const Memset&) const = default;
};

// An allocation (`allocates`) or a release.
struct Memory {
    std::int64_t at_ns = 0;
    std::uint8_t allocates = 0;
    MemoryKind kind = MemoryKind::kUnknown;
    std::uint64_t address = 0;
    std::int64_t bytes = 0;
    Place place = {};
    std::uint32_t correlation = 0;
    bool operator==(const Memory&) const = default;
};

// NVTX. Begin and end of a range have the same id.
struct Marker {
    std::int64_t at_ns = 0;
    MarkerKind kind = MarkerKind::kInstant;
    std::uint32_t id = 0, thread = 0;
    StringId name = 0, domain = 0;
    bool operator==(const Marker&) const = default;
};

// The host, or a stream, waited. No device is busy because of it.
struct Synchronization {
    std::int64_t begin_ns = 0, end_ns = 0;
    SynchronizationKind kind = SynchronizationKind::kUnknown;
    std::uint32_t context = 0, stream = 0, event = 0, correlation = 0;
    bool operator==(const Synchronization&) const = default;
};

// What recording itself, or the driver at first use, cost a thread.
struct Overhead {
    std::int64_t begin_ns = 0, end_ns = 0;
    OverheadKind kind = OverheadKind::kUnknown;
    std::uint32_t thread = 0;
    bool operator==(const Overhead&) const = default;
};

// The call `correlation` was made within the NVTX range of this operation (schedule::pack).
struct OperationMark {
    std::uint32_t correlation = 0;
    std::uint64_t operation = 0;
    bool operator==(const OperationMark&) const = default;
};

// Records that CUPTI threw away for want of a buffer, and bytes of buffers that could not be read.
struct Losses {
    std::int64_t dropped_records = 0, unreadable_bytes = 0;
    bool operator==(const Losses&) const = default;
};

// Something the recorder has to say: "kernels are not recorded: ...".
struct Note {
    StringId text = 0;
    bool operator==(const Note&) const = default;
};

// A call of CUDA's runtime or driver. A driver call within a runtime call has its correlation.
struct ApiCall {
    std::int64_t begin_ns = 0, end_ns = 0;
    ApiKind kind = ApiKind::kRuntime;
    std::uint32_t thread = 0, correlation = 0;
    StringId name = 0;         // as CUPTI has it: "cudaLaunchKernel_v7000"
    std::uint32_t result = 0;  // cudaError_t or CUresult; 0: done
    bool operator==(const ApiCall&) const = default;
};

// What a counter of the hardware counted from begin to end.
struct Counter {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint32_t device = 0;
    StringId name = 0;  // as CUPTI has it: "pcie__read_bytes.sum"
    std::int64_t value = 0;
    bool operator==(const Counter&) const = default;
};

// The order is that of the tags in the file: append only. Version 1 of the format ends with Note.
using Record = std::variant<StringRecord, Device, Kernel, Copy, Memset, Memory, Marker, Synchronization, Overhead,
                            OperationMark, Losses, Note, ApiCall, Counter>;

// How many values an enumeration has.
template <class E>
inline constexpr int kValues = 0;
template <>
inline constexpr int kValues<CopyKind> = kCopyKinds;
template <>
inline constexpr int kValues<MemoryKind> = kMemoryKinds;
template <>
inline constexpr int kValues<MarkerKind> = 3;
template <>
inline constexpr int kValues<SynchronizationKind> = 5;
template <>
inline constexpr int kValues<OverheadKind> = 10;
template <>
inline constexpr int kValues<ApiKind> = 2;

// The fields in file order; `R` is a record, const or not. A StringRecord's text is not among them.
template <class R>
auto fields(R& r) {
    using T = std::remove_const_t<R>;
    const auto at = [](auto& p) { return std::tie(p.device, p.context, p.stream); };
    if constexpr (std::is_same_v<T, StringRecord>) {
        return std::tie(r.id);
    } else if constexpr (std::is_same_v<T, Device>) {
        return std::tie(r.device, r.name, r.memory_bytes, r.multiprocessors);
    } else if constexpr (std::is_same_v<T, Kernel>) {
        return std::tuple_cat(
            std::tie(r.begin_ns, r.end_ns), at(r.place),
            std::tie(r.correlation, r.name, r.grid_x, r.grid_y, r.grid_z, r.block_x, r.block_y, r.block_z, r.registers,
                     r.static_shared_bytes, r.dynamic_shared_bytes, r.graph_node));
    } else if constexpr (std::is_same_v<T, Copy>) {
        return std::tuple_cat(std::tie(r.begin_ns, r.end_ns), at(r.place),
                              std::tie(r.correlation, r.kind, r.from, r.to, r.bytes, r.pieces, r.graph_node));
    } else if constexpr (std::is_same_v<T, Memset>) {
        return std::tuple_cat(std::tie(r.begin_ns, r.end_ns), at(r.place),
                              std::tie(r.correlation, r.bytes, r.graph_node));
    } else if constexpr (std::is_same_v<T, Memory>) {
        return std::tuple_cat(std::tie(r.at_ns, r.allocates, r.kind, r.address, r.bytes), at(r.place),
                              std::tie(r.correlation));
    } else if constexpr (std::is_same_v<T, Marker>) {
        return std::tie(r.at_ns, r.kind, r.id, r.thread, r.name, r.domain);
    } else if constexpr (std::is_same_v<T, Synchronization>) {
        return std::tie(r.begin_ns, r.end_ns, r.kind, r.context, r.stream, r.event, r.correlation);
    } else if constexpr (std::is_same_v<T, Overhead>) {
        return std::tie(r.begin_ns, r.end_ns, r.kind, r.thread);
    } else if constexpr (std::is_same_v<T, OperationMark>) {
        return std::tie(r.correlation, r.operation);
    } else if constexpr (std::is_same_v<T, Losses>) {
        return std::tie(r.dropped_records, r.unreadable_bytes);
    } else if constexpr (std::is_same_v<T, Note>) {
        return std::tie(r.text);
    } else if constexpr (std::is_same_v<T, ApiCall>) {
        return std::tie(r.begin_ns, r.end_ns, r.kind, r.thread, r.correlation, r.name, r.result);
    } else {
        return std::tie(r.begin_ns, r.end_ns, r.device, r.name, r.value);
    }
}

}  // namespace oomb::profiler
