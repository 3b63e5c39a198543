// What a replay must give, from traces of which everything is known.
#include "simulator/replay/replay.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "runtime/core/error.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/relative_error.hpp"
#include "tests/core/scratch_folder.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/simulated_trace.hpp"

namespace oomb::test {
namespace {

using schedule::Engine;
using schedule::Plan;
using simulator::Changes;
using simulator::Prediction;
using simulator::ProfileDurations;
using simulator::RecordedDurations;
using simulator::Recording;
using testing::RandomStep;
using testing::RandomSteps;

// Sums of some ten thousand terms, each rounded once.
constexpr double kRounding = 1e-9;
// Copies whose times are rounded to nanoseconds beside the rate's own: seen are 5e-9 of a step, a twentieth of this.
constexpr double kNanoseconds = 1e-7;

// Times that nothing explains: some 1 to 16 us for an operation, a gap before it, as on a machine whose noise is that
// of the day.
class NoisyDurations : public simulator::Durations {
  public:
    explicit NoisyDurations(simulator::Host host) : host_(host) {}
    double seconds(const schedule::Operation& operation, std::int64_t /*bytes*/, bool /*both*/) override {
        return 1e-6 * static_cast<double>(1 + mixed(operation) % 16);
    }
    simulator::Submission submission(const schedule::Operation& operation, std::int64_t /*runs*/) override {
        return {.gap_seconds = 1e-6 * static_cast<double>(mixed(operation) / 64 % 4)};
    }
    simulator::Host host() const override { return host_; }

  private:
    static std::uint64_t mixed(const schedule::Operation& operation) {
        return (pack(operation.id) * 0x9e3779b97f4a7c15U) >> 40U;
    }
    simulator::Host host_;
};

RandomStep next_step(RandomSteps& random, DeviceKind device) {
    RandomStep step = random.next();
    step.run.device = device;
    return step;
}

Recording recording_of(const Plan& plan, simulator::Durations& durations, std::int64_t steps = 1,
                       std::int64_t sequences = 1) {
    const ScratchFolder folder;
    const auto path = folder.write("run.trace", trace_text(plan, simulated_records(plan, durations, steps, sequences)));
    return simulator::read_recording(path, plan, std::nullopt);
}

Prediction replay(const Plan& plan, const Recording& recording, const Changes& changes = {},
                  simulator::Durations* stand_in = nullptr) {
    RecordedDurations durations(recording, simulator::host_of(plan), changes, stand_in);
    return simulate_step(plan, durations, recording.sequences);
}

void check_same(const Prediction& found, const Prediction& expected) {
    CHECK(relative_error(found.seconds, expected.seconds) <= kRounding);
    // Differences of sums: as exact as the step is long.
    CHECK(std::abs(found.exposed_copy_seconds - expected.exposed_copy_seconds) <= kRounding * expected.seconds);
    for (std::size_t phase = 0; phase < schedule::kPhases; ++phase) {
        CHECK(std::abs(found.phase_seconds[phase] - expected.phase_seconds[phase]) <= kRounding * expected.seconds);
    }
    for (const Engine engine : {Engine::kCompute, Engine::kHostToDevice, Engine::kDeviceToHost}) {
        CHECK(found.of(engine).operations == expected.of(engine).operations);
        CHECK(found.of(engine).bytes == expected.of(engine).bytes);
        CHECK(relative_error(found.of(engine).seconds, expected.of(engine).seconds) <= kRounding);
    }
}

}  // namespace

TEST_CASE("what was recorded replays exactly: the recorder's own sums, and the replay's") {
    RandomSteps random(71, {.local = true});
    for (int i = 0; i < 60; ++i) {
        const DeviceKind device = i % 2 == 0 ? DeviceKind::kCuda : DeviceKind::kCpu;
        const RandomStep step = next_step(random, device);
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        NoisyDurations noisy(simulator::host_of(plan));
        const std::int64_t sequences = random.between(1, 3);
        const Prediction ran = simulate_step(plan, noisy, sequences);
        const Recording recording = recording_of(plan, noisy, random.between(1, 3), sequences);
        CHECK(recording.sequences == sequences);
        check_same(recording.step, ran);
        check_same(replay(plan, recording), recording.step);
    }
}

// The host takes longer for an operation than the device does, so copies begin when they are submitted, not when they
// could. A host that is thought to be ahead would begin them early, which the test must be able to see.
TEST_CASE("a host that is behind is followed") {
    class SlowHost : public NoisyDurations {
      public:
        SlowHost() : NoisyDurations(simulator::Host::kFollowed) {}
        simulator::Submission submission(const schedule::Operation& operation, std::int64_t /*runs*/) override {
            return {.host_seconds = 1e-6 * static_cast<double>(30 + pack(operation.id) % 40)};
        }
    };
    RandomSteps random(74);
    int hidden_wrongly = 0;
    for (int i = 0; i < 30; ++i) {
        const RandomStep step = next_step(random, DeviceKind::kCuda);
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        SlowHost slow;
        const Recording recording = recording_of(plan, slow);
        const Prediction found = replay(plan, recording);
        // It takes longer than any operation does, so each submission shows in the times.
        CHECK(relative_error(found.seconds, recording.step.seconds) <= kRounding);
        RecordedDurations durations(recording, simulator::Host::kAhead, {}, nullptr);
        hidden_wrongly += simulate_step(plan, durations, 1).seconds < 0.97 * recording.step.seconds ? 1 : 0;
    }
    CHECK(hidden_wrongly > 10);
}

// The line through operations of one kind is exact where their time is linear in FLOPs or bytes, which those of a
// profile are, except products that add to their output and are cut in another way, and attention, which comes in waves
// of tiles (on these small steps few, of which the last is half empty); and copies count as copies beside
// others when they are, not by the clock's rule, which does not see those that are issued later.
TEST_CASE("another window, from the recording of one: what the clock gives with the times themselves") {
    RandomSteps random(72, {.layers = 4, .chunks = 8});
    HardwareProfile profile = machine();
    int other_copies = 0;
    for (int i = 0; i < 60; ++i) {
        RandomStep step = next_step(random, DeviceKind::kCuda);
        step.run.context_tokens = 6 * step.run.chunk_tokens;
        step.run.window_tokens = 2 * step.run.chunk_tokens;
        const Plan recorded = schedule::make_plan(step.model, step.run);
        step.run.window_tokens = step.run.chunk_tokens * (i % 2 == 0 ? 1 : 4);
        const Plan changed = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(changed));
        ProfileDurations times(recorded.run, profile);
        const Prediction expected = simulator::simulate_step(changed, profile);
        const Prediction found = replay(changed, recording_of(recorded, times), {.schedule = true}, &times);
        CHECK(relative_error(found.seconds, expected.seconds) <= 0.05);
        other_copies += expected.of(Engine::kHostToDevice).operations > 0 ? 1 : 0;
    }
    CHECK(other_copies > 10);
}

TEST_CASE("more bandwidth is not slower, and the recorded bandwidth changes little") {
    RandomSteps random(73);
    int copied = 0;
    for (int i = 0; i < 60; ++i) {
        const RandomStep step = next_step(random, DeviceKind::kCuda);
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        ProfileDurations times(plan.run, machine());
        const Recording recording = recording_of(plan, times);
        double before = 0;
        for (const double rate : {1e10, 1e9, 1e8, 1e7, 1e6}) {
            const double seconds = replay(plan, recording, {.host_to_device = rate, .device_to_host = rate}).seconds;
            // A copy that begins beside another takes the slower rate for its whole length, so one that begins earlier
            // can end later: by the share that both together lose, of the copies that are exposed.
            CHECK(seconds >= before * 0.99);
            before = seconds;
        }
        if (recording.step.of(Engine::kHostToDevice).bytes > 0 && recording.step.of(Engine::kDeviceToHost).bytes > 0) {
            ++copied;
            CHECK(replay(plan, recording, {.host_to_device = 1e6, .device_to_host = 1e6}).seconds >=
                  static_cast<double>(recording.step.of(Engine::kHostToDevice).bytes) / 1e6);
            const double as_it_was = machine().host_to_device_bytes.per_second;
            // The stores that pass the ring of states have the times of both directions. So has a copy that was taken
            // before the one beside it the company, but not the time: a copy may be told as if it had the other's
            // company or lacked it, and a step changes by at most what the copies of states do.
            const double copies = recording.step.of(schedule::Kind::kFetchState).seconds +
                                  recording.step.of(schedule::Kind::kStoreState).seconds;
            const double company = as_it_was / machine().host_to_device_both_bytes.per_second - 1;
            const double tolerance =
                plan.host_shards > schedule::kMostShardSlots ? company * copies / recording.step.seconds : kNanoseconds;
            CHECK(relative_error(replay(plan, recording, {.host_to_device = as_it_was}).seconds,
                                 recording.step.seconds) <= tolerance);
        }
    }
    CHECK(copied > 10);
}

TEST_CASE("what a few bytes took beside the other direction is no bandwidth") {
    RandomStep step{small_traced_plan().model, small_traced_plan().asked};
    const Plan plan = schedule::make_plan(step.model, step.run);
    ProfileDurations times(plan.run, machine());
    Recording recording = recording_of(plan, times);
    const auto first_copy = std::find_if(recording.operations.begin(), recording.operations.end(), [](const auto& one) {
        return one.engine == Engine::kHostToDevice && one.bytes > 0;
    });
    REQUIRE(first_copy != recording.operations.end());
    simulator::RecordedOperation few = *first_copy, many = few;
    few.bytes = 32'768;
    few.seconds = 13e-6;
    few.both = true;
    many.bytes = 100'000'000;
    many.seconds = 2e-3;
    many.both = false;
    recording.operations = {few, many};
    const RecordedDurations durations(recording, simulator::Host::kOneEngine, {.schedule = true}, nullptr);
    CHECK(durations.copy_rate(Engine::kHostToDevice, true) == durations.copy_rate(Engine::kHostToDevice, false));
    CHECK(*durations.copy_rate(Engine::kHostToDevice, true) == doctest::Approx(5e10));
}

TEST_CASE("what is not in the trace comes from the stand-in, or from what is like it, or is refused") {
    RandomStep step{small_traced_plan().model, small_traced_plan().asked};
    step.run.offload = Offload::kNone;
    step.run.hbm_pages = {};
    const Plan lean = schedule::make_plan(step.model, step.run);
    step.run.keep = Keep::kInput;
    const Plan keeps = schedule::make_plan(step.model, step.run);
    step.run.offload = Offload::kHost;
    step.run.hbm_pages.mode = HbmPages::Mode::kRing;
    const Plan travels = schedule::make_plan(step.model, step.run);
    ProfileDurations times(lean.run, machine());
    const Recording recording = recording_of(lean, times);
    {
        RecordedDurations durations(recording, simulator::Host::kOneEngine, {.schedule = true}, nullptr);
        simulate_step(keeps, durations, 1);
        CHECK(durations.not_recorded() == std::set{schedule::Kind::kKeepActivation, schedule::Kind::kLoadActivation});
    }
    {
        RecordedDurations durations(recording, simulator::Host::kFollowed, {.schedule = true}, &times);
        simulate_step(travels, durations, 1);
        CHECK(durations.not_recorded().contains(schedule::Kind::kWriteBack));
        // The tokens' few bytes say nothing of what a gigabyte takes.
        schedule::Operation fetch;
        fetch.engine = Engine::kHostToDevice;
        fetch.id.kind = schedule::Kind::kFetch;
        CHECK(durations.seconds(fetch, 1'000'000'000, false) == times.seconds(fetch, 1'000'000'000, false));
        CHECK(durations.not_recorded().contains(schedule::Kind::kFetch));
    }
}

}  // namespace oomb::test
