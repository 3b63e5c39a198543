// Edges of a step held against the simulator's clock, which begins an operation when all that it waits for is done.
#include "profiler/cli/issued_step.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "runtime/core/error.hpp"
#include "simulator/step/observer.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"
#include "tests/profiler/fabricated.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/simulated_trace.hpp"

namespace oomb::profiler {
namespace {

using schedule::Engine, schedule::Kind;

constexpr double kSecond_ns = 1e9;

// Any times, whole microseconds, so that the clock's sums are exact to a nanosecond. Compute waits for copies.
class RandomDurations : public simulator::Durations {
  public:
    explicit RandomDurations(std::uint64_t seed) : random_(seed) {}
    double seconds(const schedule::Operation& operation, std::int64_t /*bytes*/, bool /*both*/) override {
        const double microseconds = static_cast<double>(1 + random_below(random_, 50));
        if (operation.id.kind == Kind::kRelease) {
            return 0.0;
        }
        return 1e-6 * microseconds * (operation.engine == Engine::kCompute ? 1 : 20);
    }

  private:
    Random random_;
};

// What ran, in program order.
class Recorder : public simulator::StepObserver {
  public:
    void begins(const issue::Issuer& /*issuer*/) override {}
    void ran(const issue::IssuedOperation& issued, double begin, double end, const issue::Movement& movement) override {
        records.push_back({.step = 1,
                           .id = issued.operation.id,
                           .engine = issued.operation.engine,
                           .begin_ns = std::llround(begin * kSecond_ns),
                           .end_ns = std::llround(end * kSecond_ns),
                           .bytes = movement.bytes});
    }
    std::vector<trace::TraceRecord> records;
};

std::vector<trace::TraceRecord> simulated(const schedule::Plan& plan, std::uint64_t seed, std::int64_t sequences) {
    Recorder recorder;
    RandomDurations durations(seed);
    simulator::simulate_step(plan, durations, sequences, &recorder);
    return recorder.records;
}

// A recording of the operations, whose clock is not the trace's. The host took all in hand before the first began.
constexpr std::int64_t kLate_ns = 1'000'000;
Profile recording_of(const std::vector<trace::TraceRecord>& records) {
    std::vector<Record> all = {StringRecord{1, "oomb"}};
    for (int kind = 0; kind < schedule::kKinds; ++kind) {
        all.push_back(StringRecord{static_cast<StringId>(kind + 2), std::string(name_of(static_cast<Kind>(kind)))});
    }
    std::uint32_t call = 0;
    for (const trace::TraceRecord& record : records) {
        const std::int64_t begin = record.begin_ns + kLate_ns, end = record.end_ns + kLate_ns;
        all.push_back(OperationMark{++call, pack(record.id)});
        all.push_back(Marker{.at_ns = kLate_ns - 100'000 + call,
                             .kind = MarkerKind::kBegin,
                             .id = call,
                             .name = static_cast<StringId>(record.id.kind) + 2,
                             .domain = 1});
        if (record.id.kind == Kind::kRelease) {
            continue;
        }
        if (record.engine == Engine::kCompute) {
            all.push_back(Kernel{.begin_ns = begin, .end_ns = end, .correlation = call});
        } else {
            const bool in = record.engine == Engine::kHostToDevice;
            all.push_back(Copy{.begin_ns = begin,
                               .end_ns = end,
                               .correlation = call,
                               .kind = in ? CopyKind::kHostToDevice : CopyKind::kDeviceToHost,
                               .bytes = record.bytes});
        }
    }
    return profile_of(all);
}

std::string write_trace(const test::ScratchFolder& folder, const schedule::Plan& plan,
                        std::vector<trace::TraceRecord> records) {
    std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
    return folder.write("run.trace", test::trace_text(plan, records)).string();
}

void check_begins(const std::vector<PathOperation>& step, const std::vector<trace::TraceRecord>& records) {
    REQUIRE(step.size() == records.size());
    for (std::size_t place = 0; place < step.size(); ++place) {
        REQUIRE(step[place].id == records[place].id);
        REQUIRE(step[place].engine == records[place].engine);
        std::int64_t ready = 0;
        for (const std::int64_t before : step[place].after) {
            ready = std::max(ready, before < 0 ? 0 : records[static_cast<std::size_t>(before)].end_ns);
        }
        CHECK_MESSAGE(ready == records[place].begin_ns, schedule::to_text(step[place].id));
    }
}

}  // namespace

TEST_CASE("the edges explain every begin on the clock of the simulator") {
    check_begins(issued_step(test::small_traced_plan(), 3), simulated(test::small_traced_plan(), 1, 3));
    testing::RandomSteps steps(5);
    for (std::uint64_t round = 0; round < 30; ++round) {
        const testing::RandomStep random = steps.next();
        const schedule::Plan plan = schedule::make_plan(random.model, random.run);
        check_begins(issued_step(plan, 2), simulated(plan, round, 2));
    }
}

TEST_CASE("the critical path of a recorded step: nothing but operations where the host is ahead") {
    const schedule::Plan plan = test::small_traced_plan();
    const std::vector<trace::TraceRecord> records = simulated(plan, 2, 1);
    const test::ScratchFolder folder;
    const std::string trace = write_trace(folder, plan, records);
    const Profile profile = recording_of(records);
    const PathFindings found = find_path(profile, "run.profile", trace, std::nullopt, 3);
    CHECK(found.notes.empty());
    CHECK(found.path.host == HostTime{});
    CHECK(found.path.within_ns == 0);
    CHECK(found.path.engine_ns(Engine::kHostToDevice) > 0);
    REQUIRE(found.waits.size() == 3);
    const Json json = path_json(found);
    CHECK(json["step_ns"] == found.path.step.end - found.path.step.begin);
    CHECK(json["waits"][0]["for"].is_string());
    const std::string text = path_text(found);
    CHECK(text.find("critical path of step 1 of " + trace) != std::string::npos);
    CHECK(text.find("host_to_device") != std::string::npos);
}

TEST_CASE("a recording without ranges, with fewer operations, or of another run") {
    const schedule::Plan plan = test::small_traced_plan();
    const std::vector<trace::TraceRecord> records = simulated(plan, 2, 1);
    const test::ScratchFolder folder;
    const std::string trace = write_trace(folder, plan, records);
    Profile profile = recording_of(records);
    profile.markers.clear();
    profile.copies.pop_back();
    const PathFindings found = find_path(profile, "run.profile", trace, std::nullopt, 3);
    REQUIRE(found.notes.size() == 2);
    CHECK(found.notes[0].find("1 of ") == 0);
    CHECK(found.notes[1].find("NVTX ranges") != std::string::npos);
    CHECK(found.path.host.host_ns == 0);
    auto other = records;
    other[7].id.part += 100;
    const std::string message =
        test::message_of<FileError>([&] { find_path(recording_of(other), "run.profile", trace, std::nullopt, 3); });
    CHECK(message.find("not of the same run") != std::string::npos);
    CHECK_THROWS_AS(issued_step(test::small_traced_plan(AttentionMode::kTopK), 1), UnsupportedError);
}

}  // namespace oomb::profiler
