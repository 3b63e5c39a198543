#include "simulator/report/alternatives.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

using simulator::Alternative;

namespace {

RunConfiguration cuda_run(std::int64_t context_tokens) {
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.context_tokens = context_tokens;
    run.compute = DType::kBF16;
    run.resident_shards = {Amount::Mode::kAuto, 0};
    run.gpu_memory_bytes = 139 * (std::int64_t{1} << 30);
    run.host_memory_bytes = 125 * (std::int64_t{1} << 30);
    return run;
}

simulator::Target target_of(const ModelShape& model, simulator::Limits limits = {}) {
    return {model, limits, default_hardware()};
}

const Alternative* find(const std::vector<Alternative>& list, const std::string& change) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.change == change; });
    return found == list.end() ? nullptr : &*found;
}

// The run that the command line `base` asks for, as its plan printed it.
RunConfiguration run_of(const Json& printed, const std::string& base) {
    RunConfiguration run = cuda_run(printed["context_tokens"]);
    run.offload = printed["offload"] == "host" ? Offload::kHost : Offload::kNone;
    run.keep = printed["keep"] == "xo" ? Keep::kInputAndOutput : Keep::kNone;
    if (printed["kept_pages"] == "280") {
        run.kept_pages = {Amount::Mode::kCount, 280};
    }
    run.held_chunks.count = printed["held_chunks"] == "3" ? 3 : 0;
    if (printed["held_chunks"] == "all") {
        run.held_chunks = {Amount::Mode::kAll, 0};
    }
    if (printed["optimizer_states"] == "hbm") {
        run.resident_shards = {Amount::Mode::kAll, 0};
    }
    run.compute = parse_dtype(printed["compute_dtype"].get<std::string>());
    run.accumulator = parse_dtype(printed["accumulator_dtype"].get<std::string>());
    if (base.find("ring") != std::string::npos) {
        run.hbm_pages = {HbmPages::Mode::kRing, 0};
    } else if (base.find("5000") != std::string::npos) {
        run.hbm_pages = {HbmPages::Mode::kCount, 5000};
    }
    return run;
}

// A changed flag takes the place of the one it changes.
std::vector<std::string> with_change(std::vector<std::string> changed, const std::string& change_text) {
    const std::vector<std::string> change = words(change_text);
    for (std::size_t i = 0; i < change.size(); i += 2) {
        const auto at = std::find(changed.begin(), changed.end(), change[i]);
        if (at != changed.end()) {
            changed.erase(at, at + std::min<std::ptrdiff_t>(2, changed.end() - at));
        }
    }
    if (change_text == "--offload none") {
        const auto pages = std::find(changed.begin(), changed.end(), "--hbm-pages");
        changed.erase(pages, pages + 2);
    }
    changed.insert(changed.end(), change.begin(), change.end());
    return changed;
}

}  // namespace

TEST_CASE("typing a change into the command line gives the peaks and the verdict that were printed") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    for (const std::string base :
         {"--context 128K", "--context 1M --offload host --keep xo --hbm-pages ring",
          "--context 1M --offload host --hbm-pages 5000 --dtype fp32", "--context 200 --dtype fp64",
          "--context 64K --held-chunks 3", "--context 64K --held-chunks all", "--context 64K --keep all",
          "--context 64K --optimizer-states hbm",
          "--context 1M --offload host --keep xo --kept-pages 280 --hbm-pages ring"}) {
        const std::vector<std::string> typed =
            words("--model " + model_file("qwen2.5-7b") + " --json " + json + " " + base);
        call_plan(typed);
        const Json first = read_json_file(json);
        const RunConfiguration run = run_of(first["run"], base);
        const std::vector<Alternative> list = simulator::alternatives(target_of(model), run);
        CHECK(list.size() >= 5);
        for (const Alternative& alternative : list) {
            CAPTURE(base);
            CAPTURE(alternative.change);
            const PlanCall call = call_plan(with_change(typed, alternative.change));
            CHECK(call.code == (alternative.fits() ? 0 : 3));
            const Json plan = read_json_file(json);
            CHECK(plan["peak_bytes"]["hbm"] == alternative.peak_bytes[0]);
            CHECK(plan["peak_bytes"]["host"] == alternative.peak_bytes[1]);
        }
    }
}

TEST_CASE("what gives up least comes first") {
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    RunConfiguration run = cuda_run(128 * 1024);
    run.resident_shards = {Amount::Mode::kAll, 0};
    const std::vector<Alternative> list = simulator::alternatives(target_of(model), run);
    REQUIRE(find(list, "--optimizer-states auto") != nullptr);
    CHECK(find(list, "--optimizer-states auto")->fits());
    REQUIRE(find(list, "--offload host") != nullptr);
    CHECK(find(list, "--offload host")->fits());
    CHECK(list.front().change == "--offload host");
    CHECK(list.back().change == "--optimizer-states auto --no-optimizer");
    const auto shorter =
        std::find_if(list.begin(), list.end(), [](const auto& one) { return one.change.starts_with("--context"); });
    REQUIRE(shorter != list.end());
    CHECK(find(list, "--chunk 2K") < &*shorter);
}

TEST_CASE("the context is shortened by no chunk more than it takes") {
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    RunConfiguration run = cuda_run(1 << 20);
    const std::vector<Alternative> list = simulator::alternatives(target_of(model), run);
    const auto shorter =
        std::find_if(list.begin(), list.end(), [](const auto& one) { return one.change.starts_with("--context"); });
    REQUIRE(shorter != list.end());
    CHECK(shorter->fits());
    run.context_tokens = shorter->run.context_tokens + run.chunk_tokens;
    CHECK_FALSE(simulator::excesses_of(schedule::make_plan(model, run), {}).empty());
}

TEST_CASE("changes that the flags would refuse, or that change nothing, are not offered") {
    const ModelShape model = read_model_shape(model_file("smollm2-135m"));
    RunConfiguration run;
    run.context_tokens = 1;
    run.chunk_tokens = run.window_tokens = run.page_tokens;
    run.logit_tile_tokens = 1;
    run.optimizer = false;
    const std::vector<Alternative> list = simulator::alternatives(target_of(model, {1}), run);
    REQUIRE(list.size() == 1);
    CHECK(list[0].change == "--offload host");
}

TEST_CASE("several changes at once: time first, then the context; free memory counts both tiers") {
    const ModelShape model = read_model_shape(model_file("smollm2-135m"));
    RunConfiguration run;
    run.context_tokens = 8192;
    run.keep = Keep::kInputAndOutput;
    const std::string all =
        "--offload host --optimizer-states auto --keep none --logit-tile 256 --window 2K --chunk 1K";
    const std::vector<Alternative> unlimited = simulator::combinations(target_of(model), run);
    REQUIRE(unlimited.size() == 1);
    CHECK(unlimited[0].change == all);
    CHECK(unlimited[0].costs_only_time);
    const schedule::Plan plan = schedule::make_plan(model, unlimited[0].run);
    const std::int64_t both = plan.peak_bytes(Tier::kHbm) + plan.peak_bytes(Tier::kHost);
    CHECK(simulator::combinations(target_of(model, {both}), run).size() == 1);
    const std::vector<Alternative> limited = simulator::combinations(target_of(model, {both - 1}), run);
    REQUIRE(limited.size() == 2);
    REQUIRE(limited[0].excesses.size() == 1);
    CHECK(limited[0].excesses[0].short_bytes() == 1);
    CHECK(limited[1].change == all + " --context 7K");
    CHECK(limited[1].fits());
    CHECK_FALSE(limited[1].costs_only_time);
}

}  // namespace oomb::test
