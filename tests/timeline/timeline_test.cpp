#include "timeline/timeline.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "runtime/core/error.hpp"
#include "tests/timeline/lanes.hpp"

namespace oomb::testing {
namespace {

using schedule::Engine;
using schedule::Kind;

std::filesystem::path trace_file(const std::vector<trace::TraceRecord>& records) {
    const std::filesystem::path path = std::filesystem::temp_directory_path() / "oomb-timeline-test.jsonl";
    std::string lines =
        trace::header_line({.program = "test", .device = "cpu", .clock = "steady", .plan = Json::object()});
    std::int64_t step = 0;
    for (const trace::TraceRecord& record : records) {
        if (record.step != step) {
            lines += trace::step_line(step = record.step);
        }
        trace::append_record_line(record, lines);
    }
    std::ofstream(path) << lines;
    return path;
}

trace::TraceRecord of_step(std::int64_t step, trace::TraceRecord record) {
    record.step = step;
    return record;
}

TEST_CASE("the last step of a trace, or the one that is asked for, from 0 on") {
    const auto path = trace_file({of_step(1, record(Engine::kCompute, Kind::kLinearDown, 100, 200)),
                                  of_step(2, record(Engine::kHostToDevice, Kind::kFetch, 300, 320, 64)),
                                  of_step(2, record(Engine::kCompute, Kind::kAttention, 310, 400))});
    const auto last = timeline::read_timeline(path, std::nullopt);
    CHECK(last.step == 2);
    CHECK(last.operations() == 2);
    CHECK(last.end_ns() == 100);
    CHECK(last.lane(Engine::kCompute)[0].begin_ns == 10);
    CHECK(timeline::read_timeline(path, 1).end_ns() == 100);
    CHECK_THROWS_WITH_AS(timeline::read_timeline(path, 5), doctest::Contains("has no step 5; it holds 1 to 2"),
                         FileError);
    CHECK_THROWS_WITH_AS(timeline::read_timeline(trace_file({}), std::nullopt), doctest::Contains("holds no step"),
                         FileError);
}

TEST_CASE("slices of an engine that overlap are no trace of ours") {
    timeline::Timeline made;
    made.add(record(Engine::kCompute, Kind::kLinearDown, 0, 100));
    CHECK_THROWS_AS(made.add(record(Engine::kCompute, Kind::kAttention, 99, 120)), FileError);
    CHECK_THROWS_AS(made.add(record(Engine::kCompute, Kind::kAttention, 120, 119)), FileError);
    made.add(record(Engine::kCompute, Kind::kAttention, 100, 100));
}

TEST_CASE("every kind has a group, copies that of what they carry") {
    CHECK(timeline::group_of(Kind::kLinearHead) == timeline::Group::kLinear);
    CHECK(timeline::group_of(Kind::kMerge) == timeline::Group::kAttention);
    CHECK(timeline::group_of(Kind::kFetchState) == timeline::Group::kStates);
    CHECK(timeline::group_of(Kind::kKeepActivation) == timeline::Group::kActivations);
    CHECK(timeline::group_of(Kind::kSwiglu) == timeline::Group::kPasses);
    for (int kind = 0; kind < schedule::kKinds; ++kind) {
        const bool linear = schedule::name_of(static_cast<Kind>(kind)).starts_with("linear_");
        CHECK((timeline::group_of(static_cast<Kind>(kind)) == timeline::Group::kLinear) == linear);
    }
}

}  // namespace
}  // namespace oomb::testing
