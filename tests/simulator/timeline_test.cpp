// oomb-plan timeline, called as a user does.
#include <doctest/doctest.h>

#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/cli/simulated_timeline.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/simulator/plan_call.hpp"
#include "timeline/overlap.hpp"

namespace oomb::test {
namespace {

const std::string kRun =
    "timeline --model " OOMB_SOURCE_DIR
    "/models/smollm2-135m.json --context 16K --chunk 2K --window 4K --offload host --hbm-pages ring "
    "--keep x --optimizer-states host ";

schedule::Plan plan_of(RunConfiguration run) {
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.accumulator = DType::kF32;
    run.context_tokens = 16384;
    run.chunk_tokens = 2048;
    run.window_tokens = 4096;
    run.offload = Offload::kHost;
    return schedule::make_plan(read_model_shape(model_file("smollm2-135m")), run);
}

std::int64_t most_in_use(const timeline::MemoryTrack& track) {
    std::int64_t most = 0;
    for (const auto& point : track.points) {
        std::int64_t sum = 0;
        for (const std::int64_t bytes : point.bytes) {
            CHECK(bytes >= 0);
            sum += bytes;
        }
        most = std::max(most, sum);
    }
    return most;
}

TEST_CASE("the lanes are those of the prediction, and their parts add up") {
    for (const Keep keep : {Keep::kNone, Keep::kInput, Keep::kInputAndOutput}) {
        RunConfiguration run;
        run.keep = keep;
        const schedule::Plan plan = plan_of(run);
        const auto made = simulator::simulated_timeline(plan, default_hardware());
        const auto predicted = simulator::simulate_step(plan, default_hardware());
        CHECK(static_cast<double>(made.end_ns()) * 1e-9 == doctest::Approx(predicted.seconds).epsilon(1e-6));
        const auto step = overlap_within(made, 0, made.end_ns());
        CHECK(step.compute_ns + step.exposed_ns + step.idle_ns == step.total_ns);
        CHECK(step.host_to_device.bytes == predicted.of(schedule::Engine::kHostToDevice).bytes);
        CHECK(step.device_to_host.bytes == predicted.of(schedule::Engine::kDeviceToHost).bytes);
    }
}

TEST_CASE("memory in use stays within the plan's arenas, and the pages' frames are all used") {
    RunConfiguration run;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const auto made = simulator::simulated_timeline(plan_of(run), default_hardware());
    REQUIRE(made.memory.size() == 2);
    for (const auto& track : made.memory) {
        CHECK(most_in_use(track) <= track.reserved_bytes);
        CHECK(most_in_use(track) > track.reserved_bytes / 2);
    }
}

TEST_CASE("the files: a page, Perfetto's format, and a trace that shows the same") {
    const TemporaryFolder folder;
    const auto path = [&](const char* name) { return (folder.path() / name).string(); };
    const PlanCall call = call_plan(
        words(kRun + "--html " + path("a.html") + " --chrome " + path("a.json") + " --trace " + path("a.jsonl")));
    CHECK(call.err.find("--context: 16K (16,384) tokens are more than") != std::string::npos);
    REQUIRE(call.code == 0);
    CHECK(read_text_file(path("a.html"), 1 << 26).find("</html>") != std::string::npos);
    CHECK(read_json_file(path("a.json"), {.max_bytes = 1 << 28})["traceEvents"].size() > 1000);
    const PlanCall again = call_plan({"timeline", "--from", path("a.jsonl")});
    REQUIRE(again.code == 0);
    const auto table = [](const PlanCall& shown) {
        const std::size_t begin = shown.out.find("  step");
        return shown.out.substr(begin, shown.out.find("  wrote") - begin);
    };
    CHECK(table(again) == table(call));
}

TEST_CASE("what cannot be shown is refused in words") {
    const auto refused = [](const std::string& line, int code, const char* text) {
        const PlanCall call = call_plan(words(line));
        CAPTURE(call.err);
        CHECK(call.code == code);
        CHECK(call.err.find(text) != std::string::npos);
    };
    refused("timeline", 2, "--model and --context are needed, or --from");
    refused(kRun + "--device cpu", 2, "times are those of a GPU");
    refused(kRun + "--step 1", 2, "--step needs --from");
    refused("timeline --from none.jsonl", 1, "none.jsonl");
    refused("timeline --from none.jsonl --context 8K", 2, "leave --context out");
    refused(kRun + "--gpu-memory 1GiB", 3, "does not fit");
}

}  // namespace
}  // namespace oomb::test
