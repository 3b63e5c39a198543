// Calls of CUDA, and markers around a window. No GPU is needed.
#include <doctest/doctest.h>

#include "tests/profiler/activity_buffers.hpp"

namespace oomb::profiler {
namespace {

constexpr std::uint32_t kNow = 130001;

}  // namespace

TEST_CASE("calls are kept where they are asked for, by the names that CUPTI has for them") {
    auto launch = zeroed<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
    launch.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
    launch.start = 100;
    launch.end = 130;
    launch.threadId = 7;
    launch.correlationId = 9;
    launch.returnValue = 1;
    auto unknown = zeroed<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
    unknown.cbid = 1'000'000;
    Buffer buffer;
    buffer.add(launch).add(unknown);
    Collector none, calls;
    Decoder(kNow, none.sink()).decode_buffer(buffer.data(), buffer.size());
    CHECK(none.records.empty());
    Decoder(kNow, calls.sink(), true).decode_buffer(buffer.data(), buffer.size());
    REQUIRE(calls.records.size() == 2);
    CHECK(calls.records[0] == Record(ApiCall{.begin_ns = 100,
                                             .end_ns = 130,
                                             .kind = ApiKind::kRuntime,
                                             .thread = 7,
                                             .correlation = 9,
                                             .name = 1,
                                             .result = 1}));
    CHECK(calls.names[1] == "cudaLaunchKernel_v7000");
    CHECK(calls.records[1] == Record(ApiCall{.kind = ApiKind::kDriver}));
}

TEST_CASE("markers before a window are left out, and their names with them") {
    auto marker = zeroed<CUpti_ActivityMarker2>(CUPTI_ACTIVITY_KIND_MARKER);
    marker.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
    marker.name = "range";
    Buffer buffer;
    for (const std::uint64_t time : {499, 500, 501}) {
        marker.timestamp = time;
        buffer.add(marker);
    }
    Collector collector;
    Decoder decoder(kNow, collector.sink());
    decoder.keep_markers_from(500);
    decoder.decode_buffer(buffer.data(), buffer.size());
    CHECK(collector.records.size() == 2);
    CHECK(collector.names.size() == 3);
}

}  // namespace oomb::profiler
