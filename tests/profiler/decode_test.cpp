// CUPTI's records made by hand, in the structs of several versions. No GPU is needed: only CUPTI's library, which walks
// the buffers.
#include "profiler/record/decode.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "runtime/core/error.hpp"
#include "tests/profiler/activity_buffers.hpp"

// After cupti.h: structs of older versions.
#include <cupti_activity_deprecated.h>

namespace oomb::profiler {
namespace {

constexpr std::uint32_t kNow = 130001, kBefore = 120800;

// The struct as it lies in a buffer, with what is no part of it set to ones: who reads past its end sees that.
template <class T>
Record decoded(const T& record, std::uint32_t version, Collector& collector) {
    std::vector<std::uint8_t> memory(2048, 0xFF);
    std::memcpy(memory.data(), &record, sizeof record);
    Decoder decoder(version, collector.sink());
    decoder.decode(*reinterpret_cast<const CUpti_Activity*>(memory.data()));
    REQUIRE(collector.records.size() == 1);
    return collector.records[0];
}

template <class T>
T kernel_of(std::uint64_t start, std::uint64_t end) {
    auto k = zeroed<T>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    k.start = start;
    k.end = end;
    k.deviceId = 1;
    k.contextId = 2;
    k.streamId = 3;
    k.correlationId = 4;
    k.name = "_Z1kv";
    k.gridX = 5;
    k.gridY = 6;
    k.gridZ = 7;
    k.blockX = 8;
    k.blockY = 9;
    k.blockZ = 10;
    k.registersPerThread = 11;
    k.staticSharedMemory = 12;
    k.dynamicSharedMemory = 13;
    k.graphNodeId = std::uint64_t{1} << 63;
    return k;
}
constexpr Kernel kKernel{.begin_ns = 100,
                         .end_ns = 200,
                         .place = {1, 2, 3},
                         .correlation = 4,
                         .name = 1,
                         .grid_x = 5,
                         .grid_y = 6,
                         .grid_z = 7,
                         .block_x = 8,
                         .block_y = 9,
                         .block_z = 10,
                         .registers = 11,
                         .static_shared_bytes = 12,
                         .dynamic_shared_bytes = 13,
                         .graph_node = std::uint64_t{1} << 63};

template <class T>
T copy_of(CUpti_ActivityMemcpyKind kind) {
    auto c = zeroed<T>(CUPTI_ACTIVITY_KIND_MEMCPY);
    c.copyKind = static_cast<std::uint8_t>(kind);
    c.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    c.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    c.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
    c.bytes = std::uint64_t{1} << 40;
    c.start = 100;
    c.end = 200;
    c.deviceId = 1;
    c.contextId = 2;
    c.streamId = 3;
    c.correlationId = 4;
    c.graphNodeId = 9;
    return c;
}
constexpr Copy kCopy{.begin_ns = 100,
                     .end_ns = 200,
                     .place = {1, 2, 3},
                     .correlation = 4,
                     .kind = CopyKind::kHostToDevice,
                     .from = MemoryKind::kPinned,
                     .to = MemoryKind::kDevice,
                     .bytes = std::int64_t{1} << 40,
                     .pieces = 1,
                     .graph_node = 9};

}  // namespace

TEST_CASE("kernels of three struct versions") {
    for (const std::uint32_t version : {kBefore, kNow}) {
        Collector of_8, of_9, of_10;
        CHECK(decoded(kernel_of<CUpti_ActivityKernel8>(100, 200), version, of_8) == Record(kKernel));
        CHECK(decoded(kernel_of<CUpti_ActivityKernel9>(100, 200), version, of_9) == Record(kKernel));
        CHECK(decoded(kernel_of<CUpti_ActivityKernel10>(100, 200), version, of_10) == Record(kKernel));
        CHECK(of_10.names[1] == "_Z1kv");
    }
}

TEST_CASE("copies: direction by kind; pieces of a batch where the version tells them") {
    Collector before, now;
    CHECK(decoded(copy_of<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD), kBefore, before) == Record(kCopy));
    auto batch = copy_of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
    batch.copyCount = 256;
    Copy expected = kCopy;
    expected.pieces = 256;
    CHECK(decoded(batch, kNow, now) == Record(expected));
    const std::pair<CUpti_ActivityMemcpyKind, CopyKind> kinds[] = {
        {CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN, CopyKind::kUnknown},
        {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CopyKind::kDeviceToHost},
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, CopyKind::kHostToDevice},
        {CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, CopyKind::kDeviceToHost},
        {CUPTI_ACTIVITY_MEMCPY_KIND_ATOA, CopyKind::kDeviceToDevice},
        {CUPTI_ACTIVITY_MEMCPY_KIND_ATOD, CopyKind::kDeviceToDevice},
        {CUPTI_ACTIVITY_MEMCPY_KIND_DTOA, CopyKind::kDeviceToDevice},
        {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CopyKind::kDeviceToDevice},
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CopyKind::kHostToHost},
        {CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, CopyKind::kPeer},
        {static_cast<CUpti_ActivityMemcpyKind>(77), CopyKind::kUnknown}};
    for (const auto& [from, to] : kinds) {
        Collector one;
        CHECK(std::get<Copy>(decoded(copy_of<CUpti_ActivityMemcpy6>(from), kNow, one)).kind == to);
    }
}

TEST_CASE("copies between devices, memsets of two versions") {
    auto peer = zeroed<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
    peer.bytes = 10;
    peer.start = 1;
    peer.end = 2;
    peer.deviceId = 3;
    peer.dstDeviceId = 4;
    peer.correlationId = 5;
    Collector one, two, three;
    CHECK(decoded(peer, kNow, one) ==
          Record(Copy{
              .begin_ns = 1, .end_ns = 2, .place = {3, 0, 0}, .correlation = 5, .kind = CopyKind::kPeer, .bytes = 10}));
    const auto memset_of = [](auto m) {
        m.bytes = 10;
        m.start = 1;
        m.end = 2;
        m.streamId = 3;
        m.correlationId = 5;
        m.graphNodeId = 6;
        return m;
    };
    const Record expected =
        Memset{.begin_ns = 1, .end_ns = 2, .place = {0, 0, 3}, .correlation = 5, .bytes = 10, .graph_node = 6};
    CHECK(decoded(memset_of(zeroed<CUpti_ActivityMemset3>(CUPTI_ACTIVITY_KIND_MEMSET)), kBefore, two) == expected);
    CHECK(decoded(memset_of(zeroed<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET)), kNow, three) == expected);
}

TEST_CASE("allocations and releases of two versions") {
    const auto memory_of = [](auto m, CUpti_ActivityMemoryOperationType type) {
        m.memoryOperationType = type;
        m.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
        m.address = ~std::uint64_t{0};
        m.bytes = 4096;
        m.timestamp = 77;
        m.deviceId = 2;
        m.correlationId = 9;
        return m;
    };
    Memory expected{.at_ns = 77,
                    .allocates = 1,
                    .kind = MemoryKind::kDevice,
                    .address = ~std::uint64_t{0},
                    .bytes = 4096,
                    .place = {2, 0, 0},
                    .correlation = 9};
    Collector before, now;
    CHECK(decoded(memory_of(zeroed<CUpti_ActivityMemory3>(CUPTI_ACTIVITY_KIND_MEMORY2),
                            CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION),
                  kBefore, before) == Record(expected));
    expected.allocates = 0;
    CHECK(decoded(memory_of(zeroed<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2),
                            CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE),
                  kNow, now) == Record(expected));
}

TEST_CASE("NVTX ranges and instants") {
    const auto marker_of = [](int flags) {
        auto m = zeroed<CUpti_ActivityMarker2>(CUPTI_ACTIVITY_KIND_MARKER);
        m.flags = static_cast<CUpti_ActivityFlag>(flags);
        m.timestamp = 5;
        m.id = 6;
        m.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
        m.objectId.pt.threadId = 7;
        return m;
    };
    auto begin = marker_of(CUPTI_ACTIVITY_FLAG_MARKER_START);
    begin.name = "step";
    begin.domain = "oomb";
    Collector one, two, three;
    CHECK(decoded(begin, kNow, one) ==
          Record(Marker{.at_ns = 5, .kind = MarkerKind::kBegin, .id = 6, .thread = 7, .name = 1, .domain = 2}));
    CHECK(one.names[1] == "step");
    CHECK(one.names[2] == "oomb");
    CHECK(decoded(marker_of(CUPTI_ACTIVITY_FLAG_MARKER_END), kNow, two) ==
          Record(Marker{.at_ns = 5, .kind = MarkerKind::kEnd, .id = 6, .thread = 7}));
    CHECK(decoded(marker_of(CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS), kNow, three) ==
          Record(Marker{.at_ns = 5, .kind = MarkerKind::kInstant, .id = 6, .thread = 7}));
}

TEST_CASE("synchronisation of two versions, overhead of three, devices") {
    const auto sync_of = [](auto s) {
        s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
        s.start = 1;
        s.end = 2;
        s.correlationId = 3;
        s.contextId = 4;
        s.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
        s.cudaEventId = 6;
        return s;
    };
    const Record wait = Synchronization{.begin_ns = 1,
                                        .end_ns = 2,
                                        .kind = SynchronizationKind::kStreamWaitsForEvent,
                                        .context = 4,
                                        .stream = 0xFFFFFFFF,
                                        .event = 6,
                                        .correlation = 3};
    Collector one, two;
    CHECK(decoded(sync_of(zeroed<CUpti_ActivitySynchronization>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)), kBefore, one) ==
          wait);
    CHECK(decoded(sync_of(zeroed<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)), kNow, two) ==
          wait);
    const auto overhead_of = [](auto o) {
        o.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
        o.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
        o.objectId.pt.threadId = 3;
        o.start = 1;
        o.end = 2;
        return o;
    };
    const Record cost = Overhead{.begin_ns = 1, .end_ns = 2, .kind = OverheadKind::kBufferFlush, .thread = 3};
    Collector three, four, five;
    CHECK(decoded(overhead_of(zeroed<CUpti_ActivityOverhead>(CUPTI_ACTIVITY_KIND_OVERHEAD)), kBefore, three) == cost);
    CHECK(decoded(overhead_of(zeroed<CUpti_ActivityOverhead2>(CUPTI_ACTIVITY_KIND_OVERHEAD)), kBefore, four) == cost);
    CHECK(decoded(overhead_of(zeroed<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD)), kNow, five) == cost);
    auto device = zeroed<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE);
    device.id = 1;
    device.name = "GPU";
    device.globalMemorySize = 99;
    device.numMultiprocessors = 132;
    Collector six;
    CHECK(decoded(device, kNow, six) ==
          Record(Device{.device = 1, .name = 1, .memory_bytes = 99, .multiprocessors = 132}));
}

TEST_CASE("only correlations with operations are kept") {
    auto correlation = zeroed<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    correlation.externalKind = kOperationCorrelation;
    correlation.externalId = ~std::uint64_t{0};
    correlation.correlationId = 8;
    Collector ours;
    CHECK(decoded(correlation, kNow, ours) == Record(OperationMark{8, ~std::uint64_t{0}}));
    correlation.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
    Collector theirs;
    Buffer buffer;
    buffer.add(correlation);
    Decoder(kNow, theirs.sink()).decode_buffer(buffer.data(), buffer.size());
    CHECK(theirs.records.empty());
}

TEST_CASE("numbers that a field cannot say become 'not known'") {
    auto odd = copy_of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
    odd.start = ~std::uint64_t{0};
    odd.bytes = ~std::uint64_t{0};
    odd.srcKind = 200;
    Collector one;
    const Copy copy = std::get<Copy>(decoded(odd, kNow, one));
    CHECK(copy.begin_ns == 0);
    CHECK(copy.bytes == 0);
    CHECK(copy.from == MemoryKind::kUnknown);
}

TEST_CASE("a buffer: records of all kinds in any order, foreign kinds passed over, order and times kept") {
    auto api = zeroed<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
    Buffer buffer;
    buffer.add(kernel_of<CUpti_ActivityKernel10>(500, 600))
        .add(api)
        .add(copy_of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH))
        .add(kernel_of<CUpti_ActivityKernel10>(100, 200))  // before the first
        .add(kernel_of<CUpti_ActivityKernel10>(0, 0));     // had not ended
    Collector collector;
    Decoder decoder(kNow, collector.sink());
    decoder.decode_buffer(buffer.data(), buffer.size());
    REQUIRE(collector.records.size() == 4);
    CHECK(std::get<Kernel>(collector.records[0]).begin_ns == 500);
    CHECK(std::get<Copy>(collector.records[1]).kind == CopyKind::kDeviceToHost);
    CHECK(std::get<Kernel>(collector.records[2]).begin_ns == 100);
    CHECK(std::get<Kernel>(collector.records[3]).end_ns == 0);
    CHECK(decoder.unreadable_bytes() == 0);
    decoder.decode_buffer(buffer.data(), 0);  // an empty buffer is nothing
    CHECK(collector.records.size() == 4);
    CHECK(decoder.unreadable_bytes() == 0);
}

TEST_CASE("what CUPTI's iterator refuses is counted, and what came before it is kept") {
    Buffer buffer;
    buffer.add(kernel_of<CUpti_ActivityKernel10>(500, 600))
        .add(zeroed<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_INVALID));
    Collector collector;
    Decoder decoder(kNow, collector.sink());
    decoder.decode_buffer(buffer.data(), buffer.size());
    CHECK(collector.records.size() == 1);
    CHECK(decoder.unreadable_bytes() >= static_cast<std::int64_t>(sizeof(CUpti_ActivityKernel10)));
}

TEST_CASE("a CUPTI whose records are not known is refused") {
    Collector collector;
    CHECK_THROWS_AS(Decoder(110800, collector.sink()), UnsupportedError);
}

}  // namespace oomb::profiler
