// The plan file is what docs/plan-format.md says.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/schedule/region.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

Json plan_file(const std::string& flags) {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "plan.json").string();
    std::vector<std::string> arguments = words(flags + " --json " + path);
    arguments.insert(arguments.end(), {"--model", model_file("smollm2-135m")});
    REQUIRE(call_plan(arguments).code == 0);
    return read_json_file(path);
}

void collect_keys(const Json& value, std::vector<std::string>& keys) {
    if (!value.is_structured()) {
        return;
    }
    for (const auto& [key, child] : value.items()) {
        if (value.is_object()) {
            keys.push_back(key);
        }
        collect_keys(child, keys);
    }
}

std::int64_t rounded(std::int64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

// The document's rules, applied to the file alone.
std::int64_t arena_bytes(const Json& plan, const std::string& tier) {
    std::int64_t end = 0;
    for (const Json& region : plan["regions"]) {
        if (region["tier"] == tier) {
            CHECK(region["offset_bytes"].get<std::int64_t>() % 256 == 0);
            CHECK(region["slot_bytes"].get<std::int64_t>() % 256 == 0);
            end = std::max(end, region["offset_bytes"].get<std::int64_t>() +
                                    region["slots"].get<std::int64_t>() * region["slot_bytes"].get<std::int64_t>());
        }
    }
    for (const Json& pool : plan["pools"]) {
        if (pool["tier"] == tier) {
            CHECK(pool["offset_bytes"] == end);
            for (const Json& plane : pool["plane_bytes"]) {
                end += rounded(pool["frames"].get<std::int64_t>() * plane.get<std::int64_t>());
            }
        }
    }
    return end;
}

}  // namespace

TEST_CASE("every key and every region is documented") {
    const std::string document = read_text_file(OOMB_SOURCE_DIR "/docs/plan-format.md", 1 << 20);
    std::vector<std::string> names;
    collect_keys(plan_file("--context 64K --offload host --keep xo --hbm-pages 100"), names);
    collect_keys(plan_file("--context 64K --attention local --local-window 4000 --sinks 128"), names);
    CHECK(names.size() > 30);
    for (int i = 0; i < schedule::kRegions; ++i) {
        names.emplace_back(schedule::name_of(static_cast<schedule::RegionName>(i)));
    }
    for (const std::string& name : names) {
        CAPTURE(name);
        CHECK(document.find("`" + name + "`") != std::string::npos);
    }
}

TEST_CASE("regions and pools add up to the peaks as the document says") {
    for (const std::string flags :
         {"--context 64K --offload host --keep xo --hbm-pages 100", "--context 1000", "--context 1",
          "--context 9000 --held-chunks 2",
          "--context 64K --offload host --keep auto --held-chunks auto --host-memory 5GiB --gpu-memory 6GiB",
          "--context 64K --offload host --keep o --kept-pages auto --host-memory 5GiB --gpu-memory 4GiB",
          "--context 9999 --page-tokens 96 --chunk 960 --window 1920 --keep xo"}) {
        CAPTURE(flags);
        const Json plan = plan_file(flags);
        CHECK(plan["peak_bytes"]["hbm"] == arena_bytes(plan, "hbm") + plan["driver_bytes"].get<std::int64_t>());
        CHECK(plan["peak_bytes"]["host"] == arena_bytes(plan, "host") + plan["page_table_bytes"].get<std::int64_t>());
    }
}

TEST_CASE("equal flags give equal bytes") {
    CHECK(plan_file("--context 64K --offload host").dump() == plan_file("--context 64K --offload host").dump());
}

}  // namespace oomb::test
