// oomb-plan best, max-context and sweep, called as a user does.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

const std::string k7B = " --model " OOMB_SOURCE_DIR "/models/qwen2.5-7b.json";

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

PlanCall call(const std::string& line) {
    return call_plan(words(line));
}

// The plan file of oomb-plan under the flags of a printed oomb-train command.
Json plan_of_command(const std::string& command) {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    std::vector<std::string> flags = words(command);
    REQUIRE(flags.front() == "oomb-train");
    flags.erase(flags.begin());
    REQUIRE(flags[flags.size() - 2] == "--data");
    flags.resize(flags.size() - 2);
    flags.insert(flags.end(), {"--json", json});
    CAPTURE(command);
    CHECK(call_plan(flags).code == 0);
    return read_json_file(json);
}

// Returns the plan.
Json check_same_memory(const Json& setting) {
    Json plan = plan_of_command(setting["command"]);
    CHECK(plan["peak_bytes"] == setting["peak_bytes"]);
    CHECK(plan["kept_pages"] == setting["kept_pages"]);
    CHECK(plan["optimizer_shards"] == setting["optimizer_shards"]);
    CHECK(plan["resident_pages"] == setting["resident_pages"]);
    return plan;
}

void check_same_plan(const Json& setting) {
    CHECK(check_same_memory(setting)["time"] == setting["time"]);
}

double seconds_of(const Json& setting) {
    return setting["time"]["seconds"]["total"];
}

std::int64_t hbm_of(const Json& setting) {
    return setting["peak_bytes"]["hbm"];
}

}  // namespace

TEST_CASE("best: its command is the plan that was found, nothing that it is compared with is faster") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "best.json").string();
    for (const std::string flags : {" --context 32K", " --context 32K --offload none --chunk 4K",
                                    " --context 64K --no-optimizer --gpu-memory 80GiB --keep auto"}) {
        CAPTURE(flags);
        const PlanCall found = call("best" + k7B + flags + " --json " + json);
        REQUIRE(found.code == 0);
        // On a busy machine the search takes long enough to say how far it is.
        CHECK_FALSE(contains(found.err, "warning"));
        const Json file = read_json_file(json);
        CHECK(contains(found.out, "train with it: " + file["best"]["command"].get<std::string>() + "\n"));
        check_same_plan(file["best"]);
        REQUIRE(file["compared"].size() >= 2);
        CHECK(file["compared"][0]["time"] == file["best"]["time"]);
        for (const Json& other : file["compared"]) {
            CHECK(seconds_of(other) >= seconds_of(file["best"]) * (1 - 2e-3));
        }
        // Less and less GPU memory, more and more time.
        const Json& front = file["front"];
        REQUIRE(front.size() >= 1);
        for (std::size_t i = 0; i < front.size(); ++i) {
            check_same_plan(front[i]);
            CHECK((i == 0 || hbm_of(front[i]) < hbm_of(front[i - 1])));
            CHECK((i == 0 || seconds_of(front[i]) >= seconds_of(front[i - 1]) * (1 - 2e-3)));
        }
    }
}

TEST_CASE("best: flags that are given stay") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "best.json").string();
    const std::string flags =
        " --context 64K --chunk 2K --window 4K --logit-tile 512 --offload host --hbm-pages 77 --keep o --kept-pages 50 "
        "--held-chunks 1 --optimizer-states host --host-memory 200GiB";
    REQUIRE(call("best" + k7B + flags + " --json " + json).code == 0);
    const Json best = read_json_file(json)["best"];
    CHECK(best["chunk_tokens"] == 2048);
    CHECK(best["window_tokens"] == 4096);
    CHECK(best["logit_tile_tokens"] == 512);
    CHECK(best["offload"] == "host");
    CHECK(best["resident_pages"] == 77);
    CHECK(best["keep"] == "o");
    CHECK(best["kept_pages"]["hbm"].get<int>() + best["kept_pages"]["host"].get<int>() == 50);
    CHECK(best["held_chunks"] == 1);
    CHECK(best["optimizer_shards"]["hbm"] == 0);
}

TEST_CASE("best: types are searched where that is allowed, and stay where they are given") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "best.json").string();
    const auto best = [&](const std::string& flags) {
        REQUIRE(call("best" + k7B + " --context 32K --chunk 8K --window 32K --json " + json + flags).code == 0);
        Json found = read_json_file(json)["best"];
        const Json run = check_same_memory(found)["run"];
        CHECK(found["gradient_dtype"] == run["gradient_dtype"]);
        CHECK(found["master_weights"] == run["master_weights"]);
        check_same_plan(found);
        return found;
    };
    const auto compared_as_asked = [&] {
        const Json compared = read_json_file(json)["compared"];
        const auto row = std::find_if(compared.begin(), compared.end(),
                                      [](const Json& one) { return one["name"] == "types as asked"; });
        return row == compared.end() ? Json() : *row;
    };
    const auto types_of = [](const Json& found) {
        const std::string command = found["command"];
        return std::pair(contains(command, "--gradient-dtype bf16"), contains(command, "--master-weights remainder"));
    };
    const Json as_asked = best("");
    CHECK(types_of(as_asked) == std::pair(false, false));
    CHECK(compared_as_asked().is_null());
    const Json any = best(" --search-types");
    CHECK(any["gradient_dtype"] == "bf16");
    const Json row = compared_as_asked();
    REQUIRE(row.is_object());
    CHECK(row["gradient_dtype"] == "fp32");
    CHECK(row["master_weights"] == "fp32");
    CHECK(row["time"] == as_asked["time"]);
    CHECK(contains(read_text_file(OOMB_SOURCE_DIR "/docs/plan-format.md", 1 << 20), "types as asked"));
    CHECK(types_of(any).first);  // split masters may be as fast as whole ones
    CHECK(seconds_of(any) < seconds_of(as_asked));
    CHECK_FALSE(types_of(best(" --search-types --gradient-dtype fp32")).first);
    CHECK_FALSE(types_of(best(" --search-types --master-weights fp32")).second);
    CHECK(types_of(best(" --gradient-dtype bf16")) == std::pair(true, false));
}

TEST_CASE("best: exit codes") {
    const PlanCall none = call("best" + k7B + " --context 32K --gpu-memory 20GiB");
    CHECK(none.code == 3);
    CHECK(contains(none.err, "oomb-plan best: nothing fits, not even\n  --chunk "));
    CHECK(contains(none.err, "GPU memory: asked "));
    CHECK(none.out.empty());
    const PlanCall cpu = call("best" + k7B + " --context 32K --device cpu");
    CHECK(cpu.code == 2);
    CHECK(contains(cpu.err, "--device: found cpu, but oomb-plan best is about time"));
    const PlanCall fp32 = call("best" + k7B + " --context 32K --dtype fp32");
    CHECK(fp32.code == 1);
    CHECK(contains(fp32.err, "has no gemm.fp32"));
    const PlanCall topk = call("best" + k7B +
                               " --context 16K --attention topk --top-k 16 --chunk 4K --window 8K --logit-tile 1K "
                               "--keep none --held-chunks 0 --locality 1,1,1");
    CHECK(topk.code == 0);
    CHECK(contains(topk.out, "(page lists: modelled, sink 1, recency 1, zipf 1 (as given))"));
    CHECK(contains(topk.out, "an estimate: attention over lists"));
    CHECK(call("best" + k7B + " --context 32K --attention topk --top-k 16 --gpu-memory 20GiB").code == 3);
    CHECK(call("best" + k7B + " --context 32K --no-such-flag").code == 2);
    CHECK(contains(call("best" + k7B).err, "oomb-plan best --help lists the flags"));
    CHECK(call("best" + k7B + " --context 32K --json /absent/best.json").code == 1);
}

TEST_CASE("max-context: one chunk more does not fit") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "longest.json").string();
    const PlanCall found = call("max-context" + k7B + " --chunk 8K --window 32K --json " + json);
    REQUIRE(found.code == 0);
    const Json modes = read_json_file(json)["modes"];
    REQUIRE(modes.size() == 4);
    for (const Json& mode : modes) {
        CAPTURE(mode["mode"]);
        CHECK(contains(found.out, mode["command"]));
        check_same_plan(mode);
        const std::int64_t tokens = mode["context_tokens"];
        CHECK(tokens % 8192 == 0);
        std::vector<std::string> longer = words(mode["command"]);
        *(std::find(longer.begin(), longer.end(), "--context") + 1) = std::to_string(tokens + 8192);
        longer.erase(longer.begin());
        longer.resize(longer.size() - 2);
        CHECK(call_plan(longer).code == 3);
        const double days = mode["days_per_billion_tokens"];
        CHECK(days == doctest::Approx(1e9 / static_cast<double>(tokens) * seconds_of(mode) / 86400));
    }
    // Both tiers hold at least what one of them holds.
    CHECK(modes[2]["context_tokens"] >= modes[0]["context_tokens"]);
    CHECK(modes[2]["context_tokens"] >= modes[1]["context_tokens"]);
    CHECK(modes[3]["context_tokens"] <= modes[2]["context_tokens"]);
}

TEST_CASE("max-context: a flag that is given holds for all modes; exit codes") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "longest.json").string();
    REQUIRE(call("max-context" + k7B + " --keep o --offload host --json " + json).code == 0);
    const Json modes = read_json_file(json)["modes"];
    CHECK(modes.size() == 2);
    for (const Json& mode : modes) {
        CHECK(mode["keep"] == "o");
        CHECK(mode["offload"] == "host");
    }
    const PlanCall none = call("max-context" + k7B + " --gpu-memory 20GiB");
    CHECK(none.code == 3);
    CHECK(contains(none.err, "not even one chunk fits"));
    CHECK(call("max-context" + k7B + " --context 8K").code == 2);
    CHECK(call("max-context" + k7B + " --device cpu").code == 2);
    CHECK(call("max-context" + k7B + " --chunk 100").code == 2);
}

TEST_CASE("max-context: says where a flag limits the context and not memory") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "longest.json").string();
    const auto lean = [&](const std::string& flags) {
        const PlanCall found =
            call("max-context" + k7B + " --offload host --hbm-pages ring --keep none --json " + json + flags);
        REQUIRE(found.code == 0);
        const Json mode = read_json_file(json)["modes"][0];
        const std::string by = mode["limited_by"];
        CHECK(contains(found.out, ": limited by " + by + ", not by memory\n") == (by != "memory"));
        return std::pair(mode["context_tokens"].get<std::int64_t>(), by);
    };
    CHECK(lean(" --host-memory 900TiB --chunk 128") == std::pair(std::int64_t{65536} * 128, std::string("--chunk")));
    CHECK(lean(" --host-memory 900TiB --chunk 8K --window 1K") ==
          std::pair(std::int64_t{32768} * 8192, std::string("--window")));
    CHECK(lean(" --host-memory 125GiB --chunk 8K --window 1K").second == "memory");
}

TEST_CASE("sweep: every combination, as a table, CSV and JSON") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "sweep.json").string(), csv = (folder.path() / "sweep.csv").string();
    const PlanCall swept = call("sweep" + k7B +
                                " --context 16K,64K --chunk 4K,8K --gpu-memory 48GiB,139GiB,30GiB --offload host "
                                "--keep auto --kept-pages auto --json " +
                                json + " --csv " + csv);
    REQUIRE(swept.code == 0);
    const Json points = read_json_file(json)["points"];
    REQUIRE(points.size() == 12);
    const std::string lines = read_text_file(csv, 1 << 20);
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 13);
    CHECK(lines.starts_with("context_tokens,chunk_tokens,"));
    int fitting = 0;
    for (const Json& point : points) {
        CHECK(point["fits"] == (point["gpu_memory_bytes"].get<std::int64_t>() > 31LL << 30));
        CHECK(point["time"].is_null() != point["fits"].get<bool>());
        if (point["fits"]) {
            // A sweep simulates in larger pages.
            CHECK(seconds_of(check_same_memory(point)) == doctest::Approx(seconds_of(point)).epsilon(0.005));
            ++fitting;
        }
    }
    CHECK(fitting == 8);
    CHECK(contains(swept.out, "the longest context in the least time: oomb-train "));
    CHECK(contains(swept.out, "does not fit"));
}

TEST_CASE("sweep: exit codes") {
    CHECK(call("sweep" + k7B + " --context 16K,32K --gpu-memory 20GiB").code == 3);
    CHECK(call("sweep" + k7B + " --context 16K,").code == 2);
    CHECK(call("sweep" + k7B + " --context 16K --chunk 4K,100").code == 2);
    CHECK(call("sweep" + k7B + " --context 16K --device cpu").code == 2);
    std::string many = "1K";
    for (int i = 2; i <= 400; ++i) {
        many += fmt::format(",{}K", i);
    }
    const PlanCall refused = call("sweep" + k7B + " --context " + many + " --chunk " + many);
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "list fewer values"));
}

TEST_CASE("help of each sub-command; fit is the default") {
    for (const std::string name : {"best", "max-context", "sweep"}) {
        const PlanCall help = call(name + " --help");
        CHECK(help.code == 0);
        CHECK(contains(help.out, "usage: oomb-plan " + name + " --model"));
        CHECK(contains(help.out, "Exit code: 0 "));
        CHECK(contains(call("--help").out, "oomb-plan " + name + " [flags]"));
    }
    CHECK_FALSE(contains(call("max-context --help").out, "--context TOKENS"));
    CHECK(call("fit" + k7B + " --context 32K").out == call(k7B + " --context 32K").out);
}

TEST_CASE("--exact walks through the pages themselves") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    const std::string flags = k7B + " --context 250000 --chunk 4K --offload host --json " + json;
    REQUIRE(call(flags).code == 0);
    const double predicted = seconds_of(read_json_file(json));
    REQUIRE(call(flags + " --exact").code == 0);
    const double exact = seconds_of(read_json_file(json));
    CHECK(predicted != exact);
    CHECK(predicted == doctest::Approx(exact).epsilon(0.005));
}

TEST_CASE("every key of the files is documented") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "file.json").string();
    const std::string document = read_text_file(OOMB_SOURCE_DIR "/docs/plan-format.md", 1 << 20);
    const std::string lines[] = {"best" + k7B + " --context 16K", "max-context" + k7B,
                                 "sweep" + k7B + " --context 16K"};
    for (const std::string& line : lines) {
        REQUIRE(call(line + " --json " + json).code == 0);
        const Json file = read_json_file(json);
        for (const auto& [key, value] : file.items()) {
            CAPTURE(key);
            CHECK(contains(document, "`" + key + "`"));
            const Json& setting = value.is_array() ? value[0] : value;
            if (setting.is_object()) {
                for (const auto& inner : setting.items()) {
                    CAPTURE(inner.key());
                    CHECK(contains(document, "`" + inner.key() + "`"));
                }
            }
        }
    }
}

}  // namespace oomb::test
