// oomb-plan calibrate: on traces of a machine whose numbers are known, and how it ends where it cannot go on.
#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "simulator/calibration/submit_fit.hpp"
#include "simulator/cli/calibration_steps.hpp"
#include "simulator/cli/machine_facts.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/relative_error.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

// Each number other than the H200's, so that one that is not fitted shows.
HardwareProfile other_machine() {
    HardwareProfile profile = default_hardware();
    profile.name = "another machine";
    const auto scale = [](SourcedRate& rate, double factor) { rate.per_second *= factor; };
    const auto heads = [](double tera, double wave) {
        return HeadRates{
            {DType::kBF16, {{64, {0.6e12 * tera, wave, "made up"}}, {128, {1e12 * tera, 2 * wave, "made up"}}}}};
    };
    profile.gemm_flops.at(DType::kBF16) = {600e12, 4e-6, "made up"};
    scale(profile.gemm_sum_bytes, 0.5);
    profile.attention_forward_flops = heads(500, 3e-6);
    profile.attention_forward_causal_flops = heads(400, 5e-6);
    profile.attention_backward_flops = heads(450, 7e-6);
    profile.attention_backward_causal_flops = heads(300, 9e-6);
    profile.own_attention_forward_flops = heads(510, 2e-6);
    profile.own_attention_forward_causal_flops = heads(410, 4e-6);
    profile.own_attention_backward_flops = heads(460, 6e-6);
    profile.own_attention_backward_causal_flops = heads(310, 8e-6);
    profile.own_attention_backward_deterministic_flops = heads(210, 0.0);
    profile.own_attention_backward_causal_deterministic_flops = heads(160, 0.0);
    // Chunks of one length: these have no price of a wave that could be found.
    profile.attention_backward_deterministic_flops = heads(200, 0.0);
    profile.attention_backward_causal_deterministic_flops = heads(150, 0.0);
    scale(profile.hbm_copy_bytes, 0.7);
    scale(profile.hbm_read_bytes, 0.9);
    scale(profile.hbm_write_bytes, 0.6);
    double factor = 0.4;
    for (const std::string_view pass : kPasses) {
        profile.pass_bytes[std::string(pass)] = {factor * profile.hbm_copy_bytes.per_second, "made up"};
        factor += 0.07;
    }
    scale(profile.host_to_device_bytes, 0.5);
    scale(profile.device_to_host_bytes, 0.45);
    scale(profile.host_to_device_both_bytes, 0.4);
    scale(profile.device_to_host_both_bytes, 0.35);
    profile.launch.seconds = 4e-6;
    profile.copy_start.seconds = 9e-6;
    profile.submit = default_hardware().submit;
    profile.submit_page = default_hardware().submit_page;
    return profile;
}

void check_equal(const Json& found, const Json& expected, const std::string& place) {
    CAPTURE(place);
    REQUIRE(found.type() == expected.type());
    if (found.is_object()) {
        REQUIRE(found.size() == expected.size());
        for (const auto& [key, value] : expected.items()) {
            REQUIRE(found.contains(key));
            if (key != "source" && key != "name") {
                check_equal(found[key], value, place + "." + key);
            }
        }
    } else if (found.is_number()) {
        // Files hold six digits; times in traces are rounded to nanoseconds, of operations of some microseconds at
        // least, medians of many.
        CHECK(relative_error(found.get<double>(), expected.get<double>()) <= 2e-3);
    } else {
        CHECK(found == expected);
    }
}

}  // namespace

TEST_CASE("a made-up machine's numbers are found in the simulated traces of the steps that calibrate runs") {
    const TemporaryFolder folder;
    const auto file = [&](const std::string& name) { return (folder.path() / name).string(); };
    write_text_file(file("machine.json"), to_json(other_machine()));
    std::vector<std::string> calibrate = {"calibrate", "--out", file("fitted.json"), "--base", "h200_sxm", "--from"};
    int number = 0;
    for (const simulator::CalibrationStep& step : simulator::calibration_steps(DeviceKind::kCuda)) {
        if (!step.traced) {
            continue;
        }
        CAPTURE(step.name);
        const std::string config = file(step.model.name + ".json"), trace = file(std::to_string(++number) + ".trace");
        simulator::CalibrationModel model = step.model;
        model.layers = 2;  // the same shapes in fewer operations
        write_text_file(config, config_json(model));
        std::vector<std::string> simulate = {"timeline",           "--model", config, "--hardware",
                                             file("machine.json"), "--trace", trace};
        for (const std::string& word : words(step.flags)) {
            simulate.push_back(word);
        }
        const PlanCall call = call_plan(simulate);
        CAPTURE(call.err);
        REQUIRE(call.code == 0);
        calibrate.push_back(trace);
    }
    const PlanCall call = call_plan(calibrate);
    CAPTURE(call.err);
    REQUIRE(call.code == 0);
    Json fitted = read_json_file(file("fitted.json"));
    CHECK(fitted.erase("measured") == 1);
    Json expected = read_json_file(file("machine.json"));
    expected.erase("measured");
    // The clock gives a copy the rate of both directions where it meets one that was taken before it. Some copies to
    // the host are taken before the fetch that runs beside them: in the trace they have company, and their time is that
    // of a copy alone. So of the shapes that this number is fitted to each takes the time of one rate or of the other,
    // and what fits them lies between the two.
    const char* both = "device_to_host_both";
    CHECK(fitted[both]["gb_per_s"] >= expected[both]["gb_per_s"]);
    CHECK(fitted[both]["gb_per_s"] < expected["device_to_host"]["gb_per_s"]);
    expected.erase(both);
    fitted.erase(both);
    check_equal(fitted, expected, "profile");

    // The base with our own kernels' rates alone.
    for (const std::string& word :
         {std::string("--out"), file("only.json"), std::string("--only"), std::string("own_attention")}) {
        calibrate.push_back(word);
    }
    calibrate.erase(calibrate.begin() + 1, calibrate.begin() + 3);  // the first --out
    const PlanCall only = call_plan(calibrate);
    CAPTURE(only.err);
    REQUIRE(only.code == 0);
    const Json merged = read_json_file(file("only.json")), base = Json::parse(to_json(default_hardware()));
    for (const auto& [key, value] : merged.items()) {
        CAPTURE(key);
        const bool own = key.starts_with("own_attention");
        CHECK((own ? value == read_json_file(file("fitted.json"))[key] : value == base.at(key)));
    }
    calibrate.back() = "no_such_key";
    calibrate[2] = file("never.json");
    CHECK(call_plan(calibrate).code != 0);
}

TEST_CASE("what the host takes for a kernel is found from a step that waits for it, and none where nothing waits") {
    testing::RandomSteps random(812);
    HardwareProfile profile = default_hardware();
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = 4096;
    run.chunk_tokens = run.window_tokens = 512;
    ModelShape model = random.next().model;
    model.head_dim = 64;
    const schedule::Plan plan = schedule::make_plan(model, run);
    profile.submit.seconds = 0.0;
    const double unhindered = simulator::predict_step(plan, profile).seconds;
    simulator::fit_submit({plan, 0.9 * unhindered}, "a test", profile);
    CHECK(profile.submit.seconds == 0.0);
    profile.submit.seconds = 40e-6;
    const double hindered = simulator::predict_step(plan, profile).seconds;
    REQUIRE(hindered > 1.5 * unhindered);
    profile.submit.seconds = 0.0;
    simulator::fit_submit({plan, hindered}, "a test", profile);
    // A millisecond, halved 24 times, is 60 ps.
    CHECK(relative_error(profile.submit.seconds, 40e-6) <= 2e-6);
    profile.submit.seconds = 1e-3;
    const double most = simulator::predict_step(plan, profile).seconds;
    check_contains(message_of<FileError>([&] {
                       simulator::fit_submit({plan, 2 * most}, "a test", profile);
                   }),
                   {"submit", "1000 us", "measure again"});
}

TEST_CASE(
    "calibrate on this machine's CPU: a child that fails, files that exist, words that are none of those allowed") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "profile.json").string();
    const PlanCall failed = call_plan({"calibrate", "--out", out, "--device", "cpu", "--train", "/bin/false"});
    CHECK(failed.code == 1);
    CHECK(failed.err.find("exit code 1 of\n  /bin/false --synthetic --steps") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(out));
    const PlanCall absent = call_plan({"calibrate", "--out", out, "--train", out});
    CHECK(absent.code == 1);
    CHECK(absent.err.find("cannot be started") != std::string::npos);
    write_text_file(out, "mine");
    const PlanCall existing = call_plan({"calibrate", "--out", out, "--device", "cpu"});
    CHECK(existing.code == 2);
    CHECK(existing.err.find("exists already") != std::string::npos);
    CHECK(read_text_file(out, 100) == "mine");
    CHECK(call_plan({"calibrate", "--out", out + "2", "--device", "tpu"}).code == 2);
    // Before any step runs: /bin/false would fail in another way.
    const PlanCall nowhere =
        call_plan({"calibrate", "--out", out + "2/profile.json", "--device", "cpu", "--train", "/bin/false"});
    CHECK(nowhere.code == 1);
    CHECK(nowhere.err.find("is not a folder that may be written to") != std::string::npos);
    const PlanCall baseless =
        call_plan({"calibrate", "--out", out + "2", "--base", "no_machine", "--train", "/bin/false"});
    CHECK(baseless.code == 2);
    CHECK(baseless.err.find("no_machine") != std::string::npos);
    CHECK(call_plan({"calibrate"}).code == 2);
    CHECK(call_plan({"calibrate", "--out", out + "2", "--from", out}).code == 1);
}

TEST_CASE("what the system says of the machine") {
    const TemporaryFolder folder;
    const std::filesystem::path root = folder.path();
    CHECK(simulator::machine_facts(root).empty());
    for (const char* path : {"proc/driver/nvidia/gpus/0000:17:00.0", "sys/bus/pci/devices/0000:17:00.0",
                             "sys/devices/system/node/node0", "sys/devices/system/node/node1"}) {
        std::filesystem::create_directories(root / path);
    }
    write_text_file(root / "proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n");
    write_text_file(root / "sys/bus/pci/devices/0000:17:00.0/numa_node", "1\n");
    CHECK(simulator::machine_facts(root) == "NVIDIA driver 580.159.04, GPU on NUMA node 1, 2 NUMA nodes");
}

}  // namespace oomb::test
