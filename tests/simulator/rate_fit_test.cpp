// What a fit does where its traces say little: steps that are cut off, numbers that nothing depends on.
#include "simulator/calibration/rate_fit.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/trace/trace.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/plan_call.hpp"
#include "tests/simulator/simulated_trace.hpp"

namespace oomb::test {
namespace {

using simulator::RateFit;
using simulator::RecordedRun;
using simulator::RecordedShapes;
using simulator::ShapeTime;

std::string text_of(std::int64_t steps) {
    const schedule::Plan plan = small_traced_plan();
    simulator::ProfileDurations times(plan.run, machine());
    return trace_text(plan, simulated_records(plan, times, steps));
}

RecordedShapes shapes_of(const std::string& text) {
    const ScratchFolder folder;
    trace::TraceReader reader(folder.write("run.trace", text));
    const schedule::Plan plan = small_traced_plan();
    const schedule::StepShape step(plan.model, plan.run);
    return simulator::shape_times(reader, step);
}

std::vector<std::int64_t> counts(const RecordedShapes& shapes) {
    std::vector<std::int64_t> counts;
    for (const ShapeTime& shape : shapes.times) {
        counts.push_back(shape.count);
    }
    return counts;
}

std::string without_last_lines(std::string text, int lines) {
    for (int i = 0; i < lines; ++i) {
        text.resize(text.rfind('\n', text.size() - 2) + 1);
    }
    return text;
}

RecordedRun run_without_copies() {
    const RunConfiguration run = small_traced_plan().run;
    std::vector<ShapeTime> times = shapes_of(text_of(2)).times;
    std::erase_if(times, [](const ShapeTime& shape) { return shape.engine != schedule::Engine::kCompute; });
    return {run, times};
}

bool kept(const RateFit& fit, const std::string& key) {
    return std::ranges::find(fit.kept, key) != fit.kept.end();
}

}  // namespace

TEST_CASE("a last step that is cut off is left out, and said") {
    const std::vector<std::int64_t> of_two = counts(shapes_of(text_of(2)));
    const RecordedShapes whole = shapes_of(text_of(3));
    CHECK(whole.notes.empty());
    CHECK(counts(whole) != of_two);
    const RecordedShapes shorter = shapes_of(without_last_lines(text_of(3), 5));
    CHECK(counts(shorter) == of_two);
    REQUIRE(shorter.notes.size() == 1);
    check_contains(shorter.notes[0], {"Left out: step 3 has", "operations, the first one"});
    std::string broken = text_of(3);
    broken.pop_back();
    const RecordedShapes truncated = shapes_of(broken);
    CHECK(counts(truncated) == of_two);
    REQUIRE(truncated.notes.size() == 1);
    check_contains(truncated.notes[0], {"step 3", "cut off"});
    broken = text_of(1);
    broken.pop_back();
    check_contains(message_of<FileError>([&] { shapes_of(broken); }), {"no whole step"});
}

TEST_CASE("what no run shows stays as in the base and is named: copies, head sizes") {
    HardwareProfile base = machine();
    const DType dtype = small_traced_plan().run.compute;
    base.attention_forward_flops[dtype][4096] = {1e12, 0.0, "of the base"};
    base.copy_start = {7e-6, "of the base"};
    const RateFit fit = simulator::fit_rates({run_without_copies()}, base, "a test");
    CHECK(kept(fit, "copy_start"));
    CHECK(fit.profile.copy_start.seconds == 7e-6);
    CHECK(fit.profile.copy_start.source == "of the base");
    CHECK(kept(fit, "host_to_device"));
    CHECK(kept(fit, "attention_forward, head size 4096"));
    CHECK(fit.profile.attention_forward_flops.at(dtype).at(4096).source == "of the base");
    CHECK_FALSE(kept(fit, "attention_forward"));
    CHECK(fit.profile.attention_forward_flops.at(dtype).at(8).source != "of the base");
}

TEST_CASE("a base without numbers has none to keep: the key is named") {
    HardwareProfile base;
    base.multiprocessors.count = 1;
    base.gemm_sum_bytes = base.hbm_copy_bytes = base.hbm_read_bytes = base.hbm_write_bytes = {1e9, "made up"};
    check_contains(message_of<FileError>([&] { simulator::fit_rates({run_without_copies()}, base, "a test"); }),
                   {"host_to_device: no step shows it", "--base"});
}

TEST_CASE("a rate of memory that neither runs nor base show is that of copies within it") {
    HardwareProfile base;
    base.multiprocessors.count = 1;
    base.hbm_copy_bytes = base.host_to_device_bytes = base.device_to_host_bytes = base.host_to_device_both_bytes =
        base.device_to_host_both_bytes = {1e9, "made up"};
    RecordedRun run = run_without_copies();
    std::erase_if(run.shapes, [](const ShapeTime& shape) { return shape.kind == schedule::Kind::kGradientNorm; });
    const RateFit fit = simulator::fit_rates({run}, base, "a test");
    REQUIRE(kept(fit, "hbm_read"));
    CHECK(fit.profile.hbm_read_bytes.per_second == fit.profile.hbm_copy_bytes.per_second);
    check_contains(fit.profile.hbm_read_bytes.source, {fit.profile.hbm_copy_bytes.source, "as hbm_copy"});
}

TEST_CASE("the base is the known machine whose GPU the traces name, and no other") {
    const TemporaryFolder folder;
    const std::string trace = (folder.path() / "run.trace").string(), out = (folder.path() / "out.json").string();
    const auto calibrate = [&](const std::string& device) {
        std::string text = text_of(2);
        const std::string written = "\"a GPU\"";
        REQUIRE(text.find(written) != std::string::npos);
        write_text_file(trace, text.replace(text.find(written), written.size(), "\"" + device + "\""));
        return call_plan({"calibrate", "--out", out, "--from", trace});
    };
    for (const char* device : {"", "NVIDIA H", "NVIDIA H100 PCIe"}) {
        CAPTURE(device);
        const PlanCall refused = calibrate(device);
        CHECK(refused.code == 2);
        check_contains(refused.err, {"--base", "no known machine"});
    }
    const PlanCall known = calibrate("NVIDIA H100 80GB HBM3");
    CAPTURE(known.err);
    REQUIRE(known.code == 0);
    CHECK(read_json_file(out).at("gpu_memory").at("bytes") == known_hardware("h100_sxm")->gpu_memory.bytes);
}

}  // namespace oomb::test
