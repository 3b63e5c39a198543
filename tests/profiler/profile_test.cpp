#include "profiler/analysis/profile.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "profiler/analysis/steps.hpp"
#include "profiler/analysis/sums.hpp"
#include "profiler/analysis/tracks.hpp"
#include "profiler/analysis/window.hpp"
#include "profiler/report/chrome_trace.hpp"
#include "profiler/report/difference_report.hpp"
#include "profiler/report/html_report.hpp"
#include "profiler/report/page_lanes.hpp"
#include "profiler/report/report.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

using schedule::Kind, schedule::OperationId, schedule::Phase;

OperationId operation(Kind kind, Phase phase, int chunk, int layer) {
    OperationId id;
    id.kind = kind;
    id.phase = phase;
    id.chunk = static_cast<std::uint16_t>(chunk);
    id.layer = static_cast<std::uint16_t>(layer);
    return id;
}

// Attention launches two kernels, a fetch copies, and one kernel belongs to no operation.
std::vector<Record> marked_records() {
    return {StringRecord{1, "_Z3addPf"},
            StringRecord{2, "plain_name"},
            StringRecord{3, "GPU \"X\""},
            StringRecord{4, "recording cost a lot"},
            StringRecord{5, "range"},
            StringRecord{6, "oomb"},
            Device{.device = 0, .name = 3, .memory_bytes = 100, .multiprocessors = 2},
            OperationMark{11, pack(operation(Kind::kAttention, Phase::kForward, 1, 2))},
            OperationMark{12, pack(operation(Kind::kAttention, Phase::kForward, 1, 2))},
            OperationMark{12, pack(operation(Kind::kAttention, Phase::kForward, 1, 2))},
            OperationMark{13, pack(operation(Kind::kFetch, Phase::kBackward, 0, 2))},
            OperationMark{14, pack(operation(Kind::kFetch, Phase::kBackward, 0, 3))},  // launched nothing
            OperationMark{15, pack(operation(Kind::kOptimizer, Phase::kOptimizer, 0, 0))},
            Kernel{.begin_ns = 1'000, .end_ns = 3'000, .place = {0, 1, 7}, .correlation = 11, .name = 1},
            Kernel{.begin_ns = 3'000, .end_ns = 4'000, .place = {0, 1, 7}, .correlation = 12, .name = 2},
            Kernel{.begin_ns = 3'500, .end_ns = 4'500, .place = {0, 1, 7}, .correlation = 15, .name = 1},
            Kernel{.begin_ns = 9'000, .end_ns = 9'100, .place = {0, 1, 7}, .correlation = 99, .name = 2},
            Copy{.begin_ns = 2'000,
                 .end_ns = 6'000,
                 .place = {0, 1, 8},
                 .correlation = 13,
                 .kind = CopyKind::kHostToDevice,
                 .from = MemoryKind::kPinned,
                 .to = MemoryKind::kDevice,
                 .bytes = 4'096,
                 .pieces = 2},
            Memset{.begin_ns = 500, .end_ns = 600, .place = {0, 1, 7}, .correlation = 98, .bytes = 64},
            Marker{.at_ns = 400, .kind = MarkerKind::kBegin, .id = 1, .thread = 5, .name = 5, .domain = 6},
            Marker{.at_ns = 900, .kind = MarkerKind::kEnd, .id = 1, .thread = 5},
            Marker{.at_ns = 950, .kind = MarkerKind::kBegin, .id = 2, .thread = 5, .name = 5, .domain = 6},
            Note{4}};
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("odd records are counted, unusable ones left out") {
    const auto kernel = [](std::int64_t begin, std::int64_t end, std::uint32_t stream) {
        return Kernel{.begin_ns = begin, .end_ns = end, .place = {0, 1, stream}, .name = 1};
    };
    const Profile profile =
        profile_of({kernel(100, 200, 1), kernel(0, 200, 1), kernel(300, 0, 1), kernel(500, 400, 1), kernel(250, 250, 1),
                    kernel(150, 160, 1), kernel(120, 130, 2), Losses{3, 0}, Losses{4, 50}});
    CHECK(profile.faults.without_time == 2);
    CHECK(profile.faults.reversed == 1);
    CHECK(profile.faults.zero_length == 1);
    CHECK(profile.faults.out_of_order == 1);  // 150 after 250 on stream 1; stream 2 is its own
    CHECK(profile.faults.unnamed == 4);
    CHECK(profile.losses == Losses{7, 50});
    REQUIRE(profile.kernels.size() == 4);
    CHECK(profile.kernels[0].begin_ns == 100);
    CHECK(profile.kernels[1].begin_ns == 120);
    CHECK(profile.kernels[2].begin_ns == 150);
    CHECK(profile.kernels[3].begin_ns == 250);
    const std::vector<std::string> lines = warnings_of(profile);
    CHECK(lines.size() == 7);
    CHECK(contains(lines[0], "7 records were dropped"));
}

TEST_CASE("work is attributed to the operation that made the call") {
    const Profile profile = profile_of(marked_records());
    const auto sums = sums_by_operation(profile);
    REQUIRE(sums);
    CHECK(sums->by_kind.at(Kind::kAttention) == OperationSum{.kernels = 2, .kernel_ns = 3'000});
    CHECK(sums->by_kind.at(Kind::kFetch) == OperationSum{.copies = 1, .copy_ns = 4'000, .copy_bytes = 4'096});
    CHECK(sums->by_kind.at(Kind::kOptimizer) == OperationSum{.kernels = 1, .kernel_ns = 1'000});
    CHECK(sums->by_phase.at(Phase::kForward) == OperationSum{.kernels = 2, .kernel_ns = 3'000});
    CHECK(sums->by_layer.size() == 1);
    CHECK(sums->by_layer.at(2) ==
          OperationSum{.kernels = 2, .kernel_ns = 3'000, .copies = 1, .copy_ns = 4'000, .copy_bytes = 4'096});
    CHECK(sums->by_chunk.at(1).at(Phase::kForward) == sums->by_phase.at(Phase::kForward));
    CHECK(sums->unmarked == OperationSum{.kernels = 2, .kernel_ns = 200});
    CHECK(sums->marks_without_work == 1);
    CHECK(profile.operation_of(11) == operation(Kind::kAttention, Phase::kForward, 1, 2));
    CHECK_FALSE(profile.operation_of(99));
}

TEST_CASE("operations of another version's numbering are not attributed") {
    ProfileBuilder builder;
    for (const Record& record : marked_records()) {
        builder.add(record);
    }
    SessionHeader header = test_header();
    std::swap(header.operation_kinds.front(), header.operation_kinds.back());
    const Profile profile = builder.finish(header, {.whole = true});
    CHECK_FALSE(profile.operation_of(11));
    CHECK(contains(warnings_of(profile)[0], "numbered otherwise"));
    CHECK_FALSE(report_json(find(profile, {})).contains("operations"));
}

TEST_CASE("operations of an older version, which had fewer kinds, are") {
    ProfileBuilder builder;
    for (const Record& record : marked_records()) {
        builder.add(record);
    }
    SessionHeader header = test_header();
    header.operation_kinds.pop_back();
    CHECK(builder.finish(header, {.whole = true}).operation_of(11));
}

TEST_CASE("kernels by name, the longest first") {
    const std::vector<NameSum> sums = sums_by_kernel(profile_of(marked_records()));
    REQUIRE(sums.size() == 2);
    CHECK(sums[0].name == "add(float*)");
    CHECK(sums[0].count == 2);
    CHECK(sums[0].total_ns == 3'000);
    CHECK(sums[0].least_ns == 1'000);
    CHECK(sums[0].most_ns == 2'000);
    CHECK(sums[1].name == "plain_name");
}

TEST_CASE("the report says device, copies, gaps, kernels, operations and notes") {
    const Profile profile = profile_of(marked_records());
    const ReportOptions options;
    const std::string text = report_text(find(profile, options), options);
    for (const char* part :
         {"device 0, GPU \"X\"", "host to device", "add(float*)", "attention", "phase forward", "layer 2", "chunk 1",
          "outside of operations", "recorder: recording cost a lot", "4.0 KiB"}) {
        CHECK_MESSAGE(contains(text, part), part, "\n", text);
    }
    CHECK_FALSE(contains(text, "cut off"));
    const Json json = report_json(find(profile, options));
    // 500..600, 1000..4500, 9000..9100 compute; the copy 2000..6000 is hidden up to 4500
    const Json& device = json["devices"][0];
    CHECK(device["span_ns"] == 8'600);
    CHECK(device["compute_ns"] == 3'700);
    CHECK(device["exposed_ns"] == 1'500);
    CHECK(device["idle_ns"] == 3'400);
    CHECK(device["copies"]["host to device"]["hidden_ns"] == 2'500);
    CHECK(device["copies"]["host to device"]["bytes"] == 4'096);
    CHECK(device["gaps"][0]["length_ns"] == 4'500);
    CHECK(device["gaps"][0]["host_to_device_ns"] == 1'500);
    CHECK(json["operations"]["kinds"]["attention"]["kernel_ns"] == 3'000);
}

TEST_CASE("a profile in which no device did anything says so") {
    const Profile profile = profile_of({Synchronization{.begin_ns = 1, .end_ns = 5}});
    CHECK(contains(report_text(find(profile, {}), {}), "gave no device anything to do"));
    CHECK(report_json(find(profile, {}))["devices"].empty());
}

TEST_CASE("overlapping slices of one stream get lanes") {
    Lanes lanes;
    CHECK(lanes.place(0, 10) == 0);
    CHECK(lanes.place(5, 20) == 1);
    CHECK(lanes.place(6, 7) == 2);
    CHECK(lanes.place(10, 12) == 0);
    CHECK(lanes.place(12, 30) == 0);
    CHECK(lanes.place(20, 21) == 1);
}

TEST_CASE("names of kernels, short") {
    CHECK(short_name("void cutlass::Kernel2<cutlass::Gemm<float, 4> >(cutlass::Params)") == "cutlass::Kernel2");
    CHECK(short_name("at::(anonymous namespace)::fill<int>(int*)") == "at::fill");
    CHECK(short_name("plain_name") == "plain_name");
    CHECK(short_name("<odd>") == "<odd>");
}

TEST_CASE("Perfetto's format: valid JSON, all work once, no overlap on a track") {
    const Profile profile = profile_of(marked_records());
    const Json json = Json::parse(chrome_trace(profile, 0, kMostChromeSlices).text);
    std::map<std::pair<std::int64_t, std::int64_t>, double> ends;
    int slices = 0;
    for (const Json& event : json["traceEvents"]) {
        if (event["ph"] != "X") {
            continue;
        }
        ++slices;
        double& end = ends[{event["pid"].get<std::int64_t>(), event["tid"].get<std::int64_t>()}];
        CHECK(event["ts"].get<double>() >= end - 1e-6);
        end = event["ts"].get<double>() + event["dur"].get<double>();
    }
    CHECK(slices == 7);       // four kernels, a copy, a memset, one range: the other has no end
    CHECK(ends.size() == 4);  // stream 7 and its second lane, stream 8, the thread
    const std::string text = chrome_trace(profile, 0, kMostChromeSlices).text;
    CHECK(contains(text, "sequence 0, forward, chunk 1, layer 2, attention 0"));
    CHECK(contains(text, "device 0, GPU \\\"X\\\""));
}

TEST_CASE("random records of every kind pass through analysis and report") {
    Random random(6);
    for (int round = 0; round < 200; ++round) {
        std::vector<Record> records;
        for (int i = 0; i < 60; ++i) {
            records.push_back(random_record(random));
        }
        const Profile profile = profile_of(records);
        CHECK_FALSE(report_text(find(profile, {}), {}).empty());
        CHECK(Json::accept(chrome_trace(profile, 0, 10).text));
        CHECK_FALSE(html_report(find(profile, {}), recorded_time(profile), recorded_time(profile).begin).empty());
        CHECK_FALSE(difference_text(difference_of(profile, profile), 9).empty());
        for (const RecordedStep& step : steps_of(profile)) {
            CHECK(overlap_within(profile, step.span).total_ns == step.span.end - step.span.begin);
        }
    }
}

}  // namespace oomb::profiler
