// Traces that are not of the plan they say, and plans read back from where they were written.
#include "simulator/replay/recording.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "simulator/cli/recorded_plan.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/simulated_trace.hpp"

namespace oomb::test {
namespace {

using schedule::Engine;
using schedule::Plan;
using simulator::ProfileDurations;
using simulator::read_recording;
using simulator::Recording;
using testing::RandomStep;
using testing::RandomSteps;
using Records = std::vector<trace::TraceRecord>;

Records records(std::int64_t steps = 3) {
    const Plan plan = small_traced_plan();
    ProfileDurations times(plan.run, machine());
    return simulated_records(plan, times, steps);
}

Recording read(const Records& all, std::optional<std::int64_t> step = std::nullopt, std::string_view after = "") {
    const ScratchFolder folder;
    return read_recording(folder.write("run.trace", trace_text(small_traced_plan(), all) + std::string(after)),
                          small_traced_plan(), step);
}

std::string failure(const Records& all, std::optional<std::int64_t> step = std::nullopt) {
    return message_of<FileError>([&] { read(all, step); });
}

Plan read_back(const Json& json) {
    return simulator::recorded_plan(JsonNode(json, "run.trace, line 1, plan")).plan;
}

std::string plan_failure(Json json, const std::string& pointer, const Json& value) {
    json[Json::json_pointer(pointer)] = value;
    return message_of<FileError>([&] { read_back(json); });
}

}  // namespace

TEST_CASE("which steps count: all but the first, if there are more, or the one that is asked for") {
    Records all = records(3);
    for (trace::TraceRecord& record : all) {  // the first step takes twice as long as the others
        if (record.step == 1) {
            record.begin_ns *= 2;
            record.end_ns *= 2;
        } else {
            record.begin_ns += std::int64_t{1} << 40;
            record.end_ns += std::int64_t{1} << 40;
        }
    }
    const Recording warm = read(all), first = read(all, 1), third = read(all, 3);
    CHECK((warm.number == 2 && warm.first_step == 2 && warm.last_step == 3));
    CHECK((first.number == 1 && first.first_step == 0));
    CHECK(first.step.seconds == doctest::Approx(2 * warm.step.seconds));
    CHECK(third.step.seconds == doctest::Approx(warm.step.seconds));
    CHECK(warm.least_seconds == doctest::Approx(warm.most_seconds));
    const auto end = std::find_if(all.begin(), all.end(), [](const auto& record) { return record.step == 2; });
    CHECK(read({all.begin(), end}).step.seconds == doctest::Approx(first.step.seconds));
}

TEST_CASE("a last step that is cut off is left out, and said") {
    Records all = records(3);
    all.resize(all.size() - 5);
    const Recording recording = read(all, std::nullopt, "[\"00000");
    CHECK((recording.number == 2 && recording.first_step == 2 && recording.last_step == 2));
    REQUIRE(recording.notes.size() == 2);
    check_contains(recording.notes[0], {"Left out", "step 3"});
    check_contains(recording.notes[1], {"last line", "cut off"});
    check_contains(failure(all, 3), {"step 3 has", "the first one"});
}

TEST_CASE("what does not follow the plan is refused with its place") {
    const Records all = records(3);
    const auto of_step = [&](std::int64_t step) {
        return std::find_if(all.begin(), all.end(), [&](const auto& record) { return record.step == step; }) -
               all.begin();
    };
    const auto on = [](Engine engine) { return [engine](const auto& record) { return record.engine == engine; }; };
    check_contains(failure({}), {"run.trace", "holds no step"});
    check_contains(failure(all, 7), {"has no step 7", "1 to 3"});
    check_contains(failure({all.begin(), all.begin() + of_step(2) - 3}), {"first step", "cut off"});
    {
        Records missing = all;
        missing.erase(missing.begin() + of_step(2) + 40);
        check_contains(failure(missing), {"step 2 has", "the first one"});
    }
    {
        Records twice = all;
        twice.insert(twice.begin() + of_step(2) + 40, twice[static_cast<std::size_t>(of_step(2) + 40)]);
        twice.erase(twice.begin() + of_step(2) + 42);
        check_contains(failure(twice, 2), {"line ", "step 2", "out of order"});
    }
    {
        Records swapped = all;
        const auto first = std::find_if(swapped.begin() + of_step(2) + 20, swapped.end(), on(Engine::kCompute));
        std::iter_swap(first, std::find_if(first + 1, swapped.end(), on(Engine::kCompute)));
        check_contains(failure(swapped, 2), {"line ", "step 2", "out of order", "where its plan has"});
    }
    {
        Records backwards = all;
        const auto first = std::find_if(backwards.begin() + of_step(2) + 20, backwards.end(), on(Engine::kCompute));
        first->begin_ns = 0;
        check_contains(failure(backwards, 2), {"line ", "step 2", "begun at 0 ns", "before it ends"});
    }
    {
        Records heavier = all;
        std::find_if(heavier.begin() + of_step(2), heavier.end(), on(Engine::kHostToDevice))->bytes += 1;
        check_contains(failure(heavier, 2), {"moving"});
    }
    {
        Records more = records(1);
        more.push_back(
            {.step = 1, .id = {.chunk = 9}, .begin_ns = std::int64_t{1} << 40, .end_ns = std::int64_t{1} << 40});
        check_contains(failure(more), {"of another plan"});
    }
    {
        Records other = all;  // as many, but on another engine
        for (auto record = other.begin() + of_step(2); record != other.begin() + of_step(3); ++record) {
            record->engine = Engine::kFile;
        }
        check_contains(failure(other, 2), {"no operation more"});
    }
}

TEST_CASE("top-K lists and page tables without end are refused") {
    const ScratchFolder folder;
    const auto path = folder.write("run.trace", trace_text(small_traced_plan(), records(1)));
    const Plan lists = small_traced_plan(AttentionMode::kTopK);
    check_contains(message_of<UnsupportedError>([&] { read_recording(path, lists, std::nullopt); }), {"topk"});
    RunConfiguration run = small_traced_plan().asked;
    run.context_tokens = std::int64_t{1} << 29;
    run.chunk_tokens = run.window_tokens = std::int64_t{1} << 20;
    const Plan huge = schedule::make_plan(small_traced_plan().model, run);
    check_contains(message_of<UnsupportedError>([&] { read_recording(path, huge, std::nullopt); }), {"page tables"});
}

TEST_CASE("a plan is read back from its file") {
    RandomSteps random(81, {.local = true});
    for (int i = 0; i < 150; ++i) {
        RandomStep step = random.next();
        step.run.gpu_memory_bytes = 0;  // a budget that is typed is at least 1 MiB
        step.run.shard_parameters = RunConfiguration{}.shard_parameters;
        step.run.resident_shards = {random.coin() ? Amount::Mode::kAuto : Amount::Mode::kAll, 0};
        if (random.coin() && step.run.offload == Offload::kHost) {
            step.run.gpu_memory_bytes = kMiB + random.between(0, kMiB);
            step.run.hbm_pages = {};
        }
        if (step.run.device == DeviceKind::kCuda) {  // a budget that is not typed is not 0 there
            step.run.host_memory_bytes = kTiB;
            step.run.gpu_memory_bytes = std::max(step.run.gpu_memory_bytes, kMiB);
        }
        if (random.coin()) {
            step.run.keep = Keep::kAuto;
            step.run.held_chunks.mode = Amount::Mode::kAuto;
            step.run.kept_pages.mode = Amount::Mode::kAuto;
        }
        if (step.run.keep == Keep::kNone) {  // as typed, nothing is without effect
            step.run.kept_pages = RunConfiguration{}.kept_pages;
        }
        if (!step.run.optimizer) {
            step.run.split_masters = false;
            step.run.resident_shards = {Amount::Mode::kAuto, 0};
        }
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        Json json = Json::parse(to_json(plan));
        CHECK(to_json(read_back(json)) == to_json(plan));
        json.at("model").erase("tied_embeddings");  // as programs wrote it that named no switches
        json.at("model").erase("output_bias");
        CHECK(read_back(json).model.parameters() == plan.model.parameters());
    }
}

TEST_CASE("a plan that does not hold together is refused with the key") {
    const Json json = Json::parse(to_json(small_traced_plan()));
    check_contains(plan_failure(json, "/model/parameters", 12345), {"line 1, plan: model.parameters: found 12345"});
    check_contains(plan_failure(json, "/model/kv_heads", 0), {"model.kv_heads"});
    check_contains(plan_failure(json, "/model/query_heads", 3), {"model."});
    check_contains(plan_failure(json, "/model/layers", 1 << 20), {"model.layers"});
    check_contains(plan_failure(json, "/run/chunk_tokens", 17), {"run", "--chunk"});
    check_contains(plan_failure(json, "/run/keep", "y"), {"run", "--keep", "\"y\""});
    check_contains(plan_failure(json, "/run", nullptr), {"run"});
    check_contains(plan_failure(json, "/resident_pages", 3), {"resident_pages: found 3", "the version that wrote it"});
    check_contains(plan_failure(json, "/pools/0/frames", 1), {"pools", "the version that wrote it"});
}

}  // namespace oomb::test
