#include "profiler/analysis/call_sums.hpp"

#include <doctest/doctest.h>

#include "profiler/report/chrome_trace.hpp"
#include "profiler/report/report.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

std::vector<Record> calls_and_counters() {
    return {
        StringRecord{1, "cudaLaunchKernel_v7000"},
        StringRecord{2, "cuLaunchKernel"},
        StringRecord{3, "cudaLaunchKernel_v10000"},
        StringRecord{4, "pcie__read_bytes.sum"},
        Kernel{.begin_ns = 10'000, .end_ns = 20'000, .place = {0, 1, 7}},
        ApiCall{.begin_ns = 1'000, .end_ns = 5'000, .thread = 9, .correlation = 1, .name = 1},
        ApiCall{.begin_ns = 2'000, .end_ns = 4'000, .kind = ApiKind::kDriver, .thread = 9, .correlation = 1, .name = 2},
        ApiCall{.begin_ns = 6'000, .end_ns = 7'000, .thread = 9, .correlation = 2, .name = 3, .result = 700},
        ApiCall{.begin_ns = 0, .end_ns = 7'000, .name = 1},      // not returned
        ApiCall{.begin_ns = 8'000, .end_ns = 7'000, .name = 1},  // cannot be
        Counter{.begin_ns = 1'000, .end_ns = 2'000, .device = 0, .name = 4, .value = 50'000},
        Counter{.begin_ns = 2'000, .end_ns = 4'000, .device = 0, .name = 4, .value = 10'000},
        Counter{.begin_ns = 4'000, .end_ns = 4'000, .device = 0, .name = 4, .value = 10'000},  // no time
        Counter{.begin_ns = 1'000, .end_ns = 2'000, .device = 1, .name = 4, .value = 1'000}};
}

}  // namespace

TEST_CASE("versions are no part of a call's name, suffixes of the driver's are") {
    CHECK(call_name("cudaLaunchKernel_v7000") == "cudaLaunchKernel");
    CHECK(call_name("cuMemAlloc_v2") == "cuMemAlloc_v2");
    CHECK(call_name("cudaStreamWaitEvent_ptsz_v7000") == "cudaStreamWaitEvent_ptsz");
    CHECK(call_name("_v7000x") == "_v7000x");
    CHECK(call_name("").empty());
}

TEST_CASE("time by call, the longest first; calls without a time are none") {
    const std::vector<NameSum> calls = sums_by_call(profile_of(calls_and_counters()));
    REQUIRE(calls.size() == 2);
    CHECK(calls[0].name == "cudaLaunchKernel");
    CHECK(calls[0].count == 2);
    CHECK(calls[0].total_ns == 5'000);
    CHECK(calls[0].least_ns == 1'000);
    CHECK(calls[0].most_ns == 4'000);
    CHECK(calls[1].name == "cuLaunchKernel");
}

TEST_CASE("rates of counters: the mean over all samples, the most in one") {
    const std::vector<CounterSum> counters = sums_by_counter(profile_of(calls_and_counters()));
    REQUIRE(counters.size() == 2);
    CHECK(counters[0].samples == 2);
    CHECK(counters[0].bytes == 60'000);
    CHECK(counters[0].sampled_ns == 3'000);
    CHECK(counters[0].bytes_per_second() == 2e10);  // exactly: 60,000 / 3,000 ns
    CHECK(counters[0].most_per_second == 5e10);
    CHECK(counters[1].device == 1);
    CHECK(counter_title(counters[0].name) == "PCIe, host to device");
    CHECK(counter_title("sm__cycles") == "sm__cycles");
}

TEST_CASE("report and trace show both, and say nothing of them where there are none") {
    const Profile profile = profile_of(calls_and_counters());
    const Findings findings = find(profile, {});
    const std::string text = report_text(findings, {});
    for (const char* part : {"cudaLaunchKernel\n", "PCIe, host to device", "20.0 GB/s", "50.0 GB/s"}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
    const Json json = report_json(findings);
    CHECK(json["calls"].size() == 2);
    CHECK(json["counters"][0]["most_bytes_per_second"] == 5e10);
    std::size_t calls = 0, values = 0;
    const Json trace = Json::parse(chrome_trace(profile, 0, kMostChromeSlices).text);
    for (const Json& event : trace["traceEvents"]) {
        calls += event["name"] == "cudaLaunchKernel" && event["ph"] == "X" ? 1 : 0;
        values += event["ph"] == "C" ? 1 : 0;
    }
    CHECK(calls == 2);
    CHECK(values == 3);
    const Profile neither = profile_of({Kernel{.begin_ns = 1, .end_ns = 2}});
    CHECK(report_text(find(neither, {}), {}).find("hardware counters") == std::string::npos);
    CHECK(report_json(find(neither, {}))["calls"].empty());
}

}  // namespace oomb::profiler
