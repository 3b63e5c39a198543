#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
#include "simulator/cli/run_plan.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

PlanCall plan_of(const std::string& model, const std::string& flags) {
    std::vector<std::string> arguments = words(flags);
    arguments.insert(arguments.end(), {"--model", model});
    return call_plan(arguments);
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// A stream whose device is full.
class FullBuffer : public std::streambuf {
  protected:
    int overflow(int) override { return traits_type::eof(); }
};

}  // namespace

TEST_CASE("every model of models/ is planned") {
    for (const auto& file : model_files()) {
        CAPTURE(file);
        const PlanCall call = plan_of(file, "--context 128K --offload host --gpu-memory 1TB --host-memory 1TB");
        CHECK(call.code == 0);
        CHECK(contains(call.out, "model  " + file.stem().string() + ":"));
    }
}

TEST_CASE("a folder is a model too, and its name is shown") {
    const TemporaryFolder folder;
    const auto model = folder.path() / "Model.v0.3";
    std::filesystem::create_directory(model);
    std::filesystem::copy_file(model_file("qwen3-8b"), model / "config.json");
    for (const std::string& given : {model.string(), model.string() + "/", (model / "config.json").string()}) {
        const PlanCall call = plan_of(given, "--context 8K --no-optimizer");
        CHECK(call.code == 0);
        CHECK(contains(call.out, "model  Model.v0.3: Qwen3,"));
    }
}

TEST_CASE("exit code 3 says which memory, asked, available, shortfall, and what would fit") {
    const PlanCall call = plan_of(model_file("qwen2.5-7b"), "--context 128K --optimizer-states hbm");
    CHECK(call.code == 3);
    CHECK(contains(call.err, "GPU memory: asked "));
    CHECK(contains(call.err, ", available 139.0 GiB (149,250,113,536 bytes), short of "));
    CHECK(contains(call.err, "--offload host "));
    CHECK(contains(call.err, "fits  <- nearest"));
    CHECK(contains(call.out, "too little by"));
}

TEST_CASE("where nothing alone fits, the savings together are shown") {
    const PlanCall call = plan_of(model_file("qwen2.5-7b"), "--context 1M --gpu-memory 1GiB --host-memory 1GiB");
    CHECK(call.code == 3);
    CHECK(contains(call.err, "GPU memory: asked "));
    CHECK_FALSE(contains(call.err, "nearest"));
    CHECK(contains(call.err, "Several together"));
}

TEST_CASE("a shorter context is not the last word: with everything that costs only time more of it may stay") {
    const PlanCall call = plan_of(model_file("qwen2.5-7b"), "--context 1M --optimizer-states hbm");
    CHECK(contains(call.err, "--context 52K"));
    CHECK(contains(call.err,
                   "--offload host --optimizer-states auto --logit-tile 256 --window 4K --chunk 1K --context 824K"));
}

TEST_CASE("a budget of exactly the peak fits, one byte less does not") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    const std::string flags = "--context 4K --optimizer-states hbm --json " + json;
    REQUIRE(plan_of(model_file("smollm2-135m"), flags).code == 0);
    const std::int64_t peak = read_json_file(json)["peak_bytes"]["hbm"];
    CHECK(plan_of(model_file("smollm2-135m"), flags + " --gpu-memory " + std::to_string(peak)).code == 0);
    CHECK(plan_of(model_file("smollm2-135m"), flags + " --gpu-memory " + std::to_string(peak - 1)).code == 3);
}

TEST_CASE("7B, lean: bf16 gradients take 14 GiB less of the GPU, split master weights 14 GiB less of the host") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    const auto peak_gib = [&](const std::string& flags, const char* tier) {
        const std::string lean =
            "--context 128K --chunk 8K --window 32K --offload host --hbm-pages ring --optimizer-states host --json ";
        REQUIRE(plan_of(model_file("qwen2.5-7b"), lean + json + flags).code == 0);
        return read_json_file(json)["peak_bytes"][tier].get<double>() / (1 << 30);
    };
    CHECK(peak_gib("", "hbm") == doctest::Approx(48.7).epsilon(0.002));
    CHECK(peak_gib(" --gradient-dtype bf16", "hbm") == doctest::Approx(34.5).epsilon(0.002));
    CHECK(peak_gib("", "host") == doctest::Approx(105.2).epsilon(0.002));
    CHECK(peak_gib(" --master-weights remainder", "host") == doctest::Approx(91.1).epsilon(0.002));
}

TEST_CASE("the plan file is written whether the plan fits or not, and replaces an older one") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    CHECK(plan_of(model_file("qwen2.5-7b"), "--context 128K --optimizer-states hbm --json " + json).code == 3);
    CHECK(read_json_file(json)["run"]["context_tokens"] == 131072);
    CHECK(plan_of(model_file("qwen2.5-7b"), "--context 4K --json " + json).code == 0);
    const Json plan = read_json_file(json);
    CHECK(plan["format"] == "oomb-plan");
    CHECK(plan["version"] == 1);
    CHECK(plan["run"]["context_tokens"] == 4096);
}

TEST_CASE("a time is predicted for the machine that is named, and for no plan that cannot run") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    const auto time_of = [&](const std::string& flags) {
        plan_of(model_file("qwen2.5-7b"), flags + " --json " + json);
        return read_json_file(json)["time"];
    };
    Json profile = read_json_file(OOMB_SOURCE_DIR "/hardware/h200_sxm.json");
    const Json built_in = time_of("--context 16K --no-optimizer");
    CHECK(built_in["hardware"] == profile["name"]);
    CHECK(time_of("--context 16K --no-optimizer --hardware " OOMB_SOURCE_DIR "/hardware/h200_sxm.json") == built_in);
    CHECK(time_of("--context 16K --no-optimizer --hardware h200_sxm") == built_in);
    CHECK(time_of("--context 16K --no-optimizer --hardware h100_sxm")["hardware"] != profile["name"]);
    const PlanCall h100 = plan_of(model_file("qwen2.5-7b"), "--context 128K --offload host --hardware h100_sxm");
    CHECK(contains(h100.out, "79.0 GiB    84,825,604,096  --gpu-memory"));  // that of the card, not the H200's
    const PlanCall unknown = plan_of(model_file("qwen2.5-7b"), "--context 16K --hardware b300");
    CHECK(unknown.code == 2);
    CHECK(contains(unknown.err, "known are h100_sxm, h200_sxm"));
    profile["name"] = "half of it";
    profile["gemm"]["bf16"]["tflops"] = profile["gemm"]["bf16"]["tflops"].get<double>() / 2;
    const std::string other = (folder.path() / "half.json").string();
    write_text_file(other, profile.dump());
    const Json slower = time_of("--context 16K --no-optimizer --hardware " + other);
    CHECK(slower["hardware"] == "half of it");
    CHECK(slower["seconds"]["total"] > 1.5 * built_in["seconds"]["total"].get<double>());
    CHECK(time_of("--context 1M").is_null());  // does not fit
    CHECK(time_of("--context 16K --no-optimizer --dtype fp32 --offload host").is_null());
    CHECK(time_of("--context 128 --chunk 128 --no-optimizer --device cpu").is_null());
    const PlanCall cpu = plan_of(model_file("qwen2.5-7b"), "--context 128 --device cpu --hardware " + other);
    CHECK(cpu.code == 2);
    CHECK(contains(cpu.err, "--hardware: found"));
    const PlanCall fp32 = plan_of(model_file("qwen2.5-7b"), "--context 16K --no-optimizer --dtype fp32");
    CHECK(contains(fp32.out, "not predicted, hardware profile"));
    CHECK(contains(fp32.out, "has no gemm.fp32"));
}

TEST_CASE("files that cannot be read or written are exit code 1 and named") {
    const TemporaryFolder folder;
    const std::string absent = (folder.path() / "absent" / "plan.json").string();
    const PlanCall unwritten = plan_of(model_file("smollm2-135m"), "--context 4K --json " + absent);
    CHECK(unwritten.code == 1);
    CHECK(contains(unwritten.err, (folder.path() / "absent").string()));
    const PlanCall unread = plan_of(absent, "--context 4K");
    CHECK(unread.code == 1);
    CHECK(contains(unread.err, absent));
    CHECK(unread.out.empty());
}

TEST_CASE("a full disk under standard output is not a success") {
    FullBuffer buffer;
    std::ostream out(&buffer);
    std::ostringstream err;
    const std::string model = model_file("smollm2-135m");
    const char* argv[] = {"oomb-plan", "--context", "4K", "--model", model.c_str()};
    CHECK(simulator::run_plan(5, argv, out, err) == 1);
    CHECK(contains(err.str(), "standard output"));
}

TEST_CASE("a context beyond the model's positions is a warning") {
    const PlanCall longer = plan_of(model_file("smollm2-135m"), "--context 8193");
    CHECK(longer.code == 0);
    CHECK(contains(longer.err, "warning: --context: 8.0K (8,193) tokens are more than the 8K (8,192) positions"));
    CHECK(plan_of(model_file("smollm2-135m"), "--context 8192").err.empty());
}

TEST_CASE("on the CPU the two tiers together are held to what the machine has free") {
    const PlanCall small = plan_of(model_file("smollm2-135m"), "--context 128 --device cpu --chunk 128 --no-optimizer");
    CHECK(contains(small.out, "free now"));
    const PlanCall large = plan_of(model_file("qwen2.5-7b"), "--context 512M --device cpu --chunk 16K");
    CHECK(large.code == 3);
    CHECK(contains(large.err, "free memory: asked "));
    const PlanCall other_machine =
        plan_of(model_file("smollm2-135m"), "--context 128 --device cpu --gpu-memory 99TiB --host-memory 99TiB");
    CHECK(other_machine.code == 0);
    CHECK_FALSE(contains(other_machine.out, "free now"));
}

TEST_CASE("--version and --help end with 0") {
    CHECK(call_plan({"--version"}).code == 0);
    CHECK(call_plan({"--version"}).out.starts_with("oomb-plan "));
    CHECK(call_plan({"--help"}).code == 0);
    CHECK(call_plan({"--help"}).err.empty());
}

}  // namespace oomb::test
