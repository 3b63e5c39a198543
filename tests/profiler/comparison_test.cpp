#include "profiler/analysis/comparison.hpp"

#include <doctest/doctest.h>

#include "profiler/report/comparison_report.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

using schedule::Kind, schedule::OperationId;

constexpr auto kPrediction = static_cast<std::size_t>(Source::kPrediction);
constexpr auto kEvents = static_cast<std::size_t>(Source::kEvents);
constexpr auto kCupti = static_cast<std::size_t>(Source::kCupti);

OperationId operation(Kind kind, std::uint32_t part) {
    OperationId id;
    id.kind = kind;
    id.part = part;
    return id;
}

// Two steps of: attention 0 (two kernels), fetch 0 (a batch), release 0 (nothing); the second step is slower, and its
// calls follow in number.
std::vector<Record> two_steps() {
    std::vector<Record> records;
    std::uint32_t call = 100;
    for (std::int64_t step = 0; step < 2; ++step) {
        const std::int64_t at = 10'000 * (step + 1);
        records.push_back(OperationMark{call, pack(operation(Kind::kAttention, 0))});
        records.push_back(Kernel{.begin_ns = at, .end_ns = at + 1'000, .correlation = call++});
        records.push_back(OperationMark{call++, pack(operation(Kind::kAttention, 0))});  // an event: no work
        records.push_back(OperationMark{call, pack(operation(Kind::kAttention, 0))});
        records.push_back(Kernel{.begin_ns = at + 1'100, .end_ns = at + 2'000 + 50 * step, .correlation = call++});
        records.push_back(OperationMark{call, pack(operation(Kind::kFetch, 0))});
        records.push_back(Copy{.begin_ns = at + 900,
                               .end_ns = at + 1'400,
                               .correlation = call++,
                               .kind = CopyKind::kHostToDevice,
                               .bytes = 77});
        records.push_back(OperationMark{call++, pack(operation(Kind::kRelease, 0))});
    }
    return records;
}

// Of the first step: attention over [0, 2000) and a fetch of [800, 1300), and a release.
timeline::Timeline traced(std::int64_t attention_ns, std::int64_t fetch_bytes) {
    timeline::Timeline step;
    step.add({.id = operation(Kind::kAttention, 0), .begin_ns = 0, .end_ns = attention_ns});
    step.add({.id = operation(Kind::kRelease, 0), .begin_ns = attention_ns, .end_ns = attention_ns + 1});
    step.add({.id = operation(Kind::kFetch, 0),
              .engine = schedule::Engine::kHostToDevice,
              .begin_ns = 800,
              .end_ns = 1'300,
              .bytes = fetch_bytes});
    return step;
}

}  // namespace

TEST_CASE("the steps of a recording: each operation once, from its first begin to its last end") {
    const std::vector<RecordedStep> steps = steps_of(profile_of(two_steps()));
    REQUIRE(steps.size() == 2);
    CHECK(steps[0].number == 1);
    CHECK(steps[0].span == timeline::Interval{10'000, 12'000});
    CHECK(steps[1].span == timeline::Interval{20'000, 22'050});
    REQUIRE(steps[1].operations.size() == 2);
    const OperationWork& attention = steps[1].operations[0];
    CHECK(attention.id == operation(Kind::kAttention, 0));
    CHECK(attention.time == timeline::Interval{20'000, 22'050});
    CHECK(attention.busy_ns == 1'950);
    CHECK(attention.bytes == 0);
    CHECK(steps[1].operations[1].bytes == 77);
    CHECK(steps_of(profile_of({Kernel{.begin_ns = 1, .end_ns = 2}})).empty());
}

TEST_CASE("a recording that begins within a step: the next step begins with its zero_gradients") {
    const auto call = [](std::uint32_t number, Kind kind) {
        return std::vector<Record>{OperationMark{number, pack(operation(kind, 0))},
                                   Kernel{.begin_ns = 10 * number, .end_ns = 10 * number + 5, .correlation = number}};
    };
    std::vector<Record> records;
    std::uint32_t number = 1;
    for (const Kind kind : {Kind::kAttention, Kind::kZeroGradients, Kind::kRope, Kind::kAttention, Kind::kZeroGradients,
                            Kind::kRope, Kind::kAttention}) {
        for (const Record& record : call(number, kind)) {
            records.push_back(record);
        }
        ++number;
    }
    const std::vector<RecordedStep> steps = steps_of(profile_of(records));
    REQUIRE(steps.size() == 3);
    CHECK(steps[0].operations.size() == 1);
    CHECK(steps[1].operations.size() == 3);
    CHECK(steps[2].operations.size() == 3);
}

TEST_CASE("oomb-train's ranges number the steps") {
    std::vector<Record> records = two_steps();
    for (StringId id = 1; const char* text : {"oomb", "step 7", "step 8", "step x", "another domain"}) {
        records.push_back(StringRecord{id++, text});
    }
    const auto mark = [&](std::int64_t at, StringId name, StringId domain) {
        records.push_back(Marker{.at_ns = at, .kind = MarkerKind::kBegin, .name = name, .domain = domain});
    };
    mark(15'000, 3, 1);
    mark(16'000, 4, 1);
    mark(17'000, 2, 5);
    const std::vector<RecordedStep> late = steps_of(profile_of(records));
    CHECK_FALSE(late[0].numbered);
    CHECK(late[0].number == 1);
    CHECK(late[1].numbered);
    CHECK(late[1].number == 8);
    mark(9'000, 2, 1);
    CHECK(steps_of(profile_of(records))[0].number == 7);
}

TEST_CASE("overlap of a step in CUPTI's times, copies within the device as compute") {
    std::vector<Record> records = two_steps();
    records.push_back(
        Copy{.begin_ns = 12'000, .end_ns = 12'300, .correlation = 9, .kind = CopyKind::kDeviceToDevice, .bytes = 5});
    const timeline::Overlap overlap = overlap_within(profile_of(records), {10'000, 12'500});
    CHECK(overlap.total_ns == 2'500);
    CHECK(overlap.compute_ns == 1'000 + 900 + 300);
    CHECK(overlap.exposed_ns == 100);  // of the copy 10,900 .. 11,400 that between the kernels
    CHECK(overlap.idle_ns == 200);
    CHECK(overlap.host_to_device.bytes == 77);
    CHECK(overlap.host_to_device.busy_ns == 500);
    CHECK(overlap.host_to_device.hidden_ns == 400);
    CHECK(overlap.device_to_host.busy_ns == 0);
}

TEST_CASE("three sources: sums over what all have, errors against the last") {
    const Profile profile = profile_of(two_steps());
    BySource<std::optional<StepTimes>> steps;
    steps[kPrediction] = times_of(traced(1'800, 77));
    steps[kEvents] = times_of(traced(2'100, 77));
    steps[kCupti] = times_of(profile, steps_of(profile)[0]);
    const Comparison found = compare(steps, 1);
    CHECK(found.reference() == Source::kCupti);
    CHECK(found.kinds.size() == 2);
    CHECK(found.kinds.at(Kind::kAttention) == ComparedSum{1, {Amount{1'800, 0}, {2'100, 0}, {2'000, 0}}});
    CHECK(found.kinds.at(Kind::kFetch) == ComparedSum{1, {Amount{500, 77}, {500, 77}, {500, 77}}});
    CHECK(found.total == ComparedSum{2, {Amount{2'300, 77}, {2'600, 77}, {2'500, 77}}});
    CHECK(found.phases.at(schedule::Phase::kFill) == found.total);
    CHECK(found.without_device_work == 1);
    CHECK(found.other_bytes == 0);
    CHECK(notes_of(found).empty());
    REQUIRE(found.differ.size() == 1);
    CHECK(found.differ[0].id.kind == Kind::kAttention);
    const Json json = comparison_json(found, {});
    CHECK(json["kinds"]["attention"]["errors"]["predicted"].get<double>() == doctest::Approx(-0.1));
    CHECK(json["kinds"]["attention"]["errors"]["events"].get<double>() == doctest::Approx(0.05));
    CHECK(json["step"]["cupti"]["step_ns"] == 2'000);
    CHECK(json["step"]["predicted"]["host_to_device"]["hidden_share"] == 1.0);
    CHECK(json["step"]["cupti"]["host_to_device"]["hidden_share"] == 0.8);
    const std::string text = comparison_text(found, {});
    for (const char* part : {"predicted by", "events by", "-10.0 %", "+5.0 %", "+20.0 pts", "phase fill", "total"}) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, part, "\n", text);
    }
}

TEST_CASE("two sources: releases count where no recording is, the columns of the third are not there") {
    BySource<std::optional<StepTimes>> steps;
    steps[kPrediction] = times_of(traced(1'000, 77));
    steps[kEvents] = times_of(traced(2'000, 77));
    const Comparison found = compare(steps, 9);
    CHECK(found.reference() == Source::kEvents);
    CHECK(found.total.operations == 3);
    CHECK(found.differ.size() == 3);
    const std::string text = comparison_text(found, {});
    CHECK(text.find("CUPTI") == std::string::npos);
    CHECK(text.find("-50.0 %") != std::string::npos);
    CHECK_FALSE(comparison_json(found, {})["total"].contains("cupti"));
}

TEST_CASE("missing operations are counted by kind, other bytes are said") {
    const Profile profile = profile_of(two_steps());
    BySource<std::optional<StepTimes>> steps;
    timeline::Timeline trace = traced(2'000, 78);
    trace.add({.id = operation(Kind::kRope, 3), .begin_ns = 3'000, .end_ns = 3'009});
    steps[kEvents] = times_of(trace);
    steps[kCupti] = times_of(profile, steps_of(profile)[0]);
    std::erase_if(steps[kEvents]->operations,
                  [](const TimedOperation& timed) { return timed.id.kind == Kind::kAttention; });
    const Comparison found = compare(steps, 9);
    CHECK(found.total.operations == 1);
    CHECK(found.missing[kEvents] == std::map<Kind, std::int64_t>{{Kind::kAttention, 1}});
    CHECK(found.missing[kCupti] == std::map<Kind, std::int64_t>{{Kind::kRope, 1}});
    const std::vector<std::string> notes = notes_of(found);
    REQUIRE(notes.size() == 3);
    CHECK(notes[0].find("events: lacks 1 operations that another has (attention 1)") == 0);
    CHECK(notes[1].find("CUPTI: lacks 1 operations that another has (rope 1)") == 0);
    CHECK(notes[2].find("1 of 1 operations move other bytes") == 0);
}

TEST_CASE("settings in which two plans differ") {
    const Json plan = {{"model", {{"layers", 2}, {"hidden", 8}}},
                       {"run", {{"chunk_tokens", 16}, {"keep", "auto"}}},
                       {"keep", "x"},
                       {"pools", Json::array()}};
    Json other = plan;
    CHECK(plan_difference(plan, other).model.empty());
    CHECK(plan_difference(plan, other).run.empty());
    other["run"]["chunk_tokens"] = 32;
    other["run"].erase("keep");  // an earlier program's
    other["keep"] = "xo";
    other["model"]["layers"] = 3;
    other["pools"].push_back(1);
    CHECK(plan_difference(plan, other).model == std::vector<std::string>{"model.layers: 2 and 3"});
    CHECK(plan_difference(plan, other).run ==
          std::vector<std::string>{"run.chunk_tokens: 16 and 32", "keep: \"x\" and \"xo\""});
}

}  // namespace oomb::profiler
