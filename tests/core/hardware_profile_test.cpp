#include "runtime/core/hardware_profile.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/units.hpp"
#include "tests/core/configs.hpp"
#include "tests/core/messages.hpp"

namespace oomb {

namespace {

Json h200() {
    return read_json_file(test::source_folder() / "hardware" / "h200_sxm.json");
}

}  // namespace

TEST_CASE("the H100 profile is whole and says of every number that it is an estimate") {
    const Json numbers = read_json_file(test::source_folder() / "hardware" / "h100_sxm.json").flatten();
    const HardwareProfile profile = read_hardware_profile(test::source_folder() / "hardware" / "h100_sxm.json");
    CHECK(profile.name.find("estimate") != std::string::npos);
    CHECK(profile.hbm_copy_bytes.per_second < 3350e9);
    int sources = 0;
    for (const auto& [key, value] : numbers.items()) {
        if (key.ends_with("/source") && !key.starts_with("/peak")) {
            CAPTURE(key);
            CHECK(value.get<std::string>().starts_with("estimate"));
            ++sources;
        }
    }
    CHECK(sources >= 20);
}

TEST_CASE("the H200 profile is read with its units, head sizes and sources") {
    const Json json = h200();
    const HardwareProfile profile = read_hardware_profile(test::source_folder() / "hardware" / "h200_sxm.json");
    CHECK(profile.name.find("H200") != std::string::npos);
    CHECK(format_bytes_short(profile.gpu_memory.bytes) == "139.8 GiB");
    CHECK(profile.host_memory.bytes == 125 * kGiB);
    CHECK(profile.multiprocessors.count == 132);
    const auto tera = [](const auto& rate) { return rate.per_second * 1e-12; };
    const auto near = [](const Json& number) { return doctest::Approx(number.get<double>()).epsilon(1e-12); };
    CHECK(tera(profile.gemm_flops.at(DType::kBF16)) == near(json["gemm"]["bf16"]["tflops"]));
    for (const std::int64_t head_dim : {64, 128}) {
        const std::string key = std::to_string(head_dim);
        CHECK(tera(profile.attention_forward_flops.at(DType::kBF16).at(head_dim)) ==
              near(json["attention_forward"]["bf16"][key]["tflops"]));
        CHECK(tera(profile.attention_backward_causal_flops.at(DType::kBF16).at(head_dim)) ==
              near(json["attention_backward_causal"]["bf16"][key]["tflops"]));
        CHECK(tera(profile.attention_backward_deterministic_flops.at(DType::kBF16).at(head_dim)) ==
              near(json["attention_backward_deterministic"]["bf16"][key]["tflops"]));
    }
    CHECK(profile.peak_flops.at(DType::kBF16).per_second == 989.5e12);
    CHECK(profile.hbm_copy_bytes.per_second * 1e-9 == near(json["hbm_copy"]["gb_per_s"]));
    CHECK(profile.pass_bytes.at("norm").per_second * 1e-9 == near(json["passes"]["norm"]["gb_per_s"]));
    CHECK(profile.device_to_host_both_bytes.per_second * 1e-9 == near(json["device_to_host_both"]["gb_per_s"]));
    CHECK(profile.launch.seconds * 1e6 == near(json["launch"]["microseconds"]));
    CHECK_FALSE(profile.gemm_flops.at(DType::kBF16).source.empty());
}

TEST_CASE("what is written is read again as it was") {
    for (const char* name : {"h200_sxm.json", "h100_sxm.json"}) {
        const std::filesystem::path path = test::source_folder() / "hardware" / name;
        const std::string text = to_json(read_hardware_profile(path));
        CHECK(Json::parse(text) == read_json_file(path));
        CHECK(to_json(parse_hardware_profile(text, "again.json")) == text);
    }
}

TEST_CASE("a wrong profile names the key") {
    struct Bad {
        std::string_view pointer;
        std::string_view value;
        std::initializer_list<std::string_view> fragments;
    };
    const Bad cases[] = {
        {"/format", "\"other\"", {"format: found \"other\"", "oomb-hardware-profile"}},
        {"/version", "1", {"version: found 1", "version 2", "oomb-plan calibrate"}},
        {"/extra", "1", {"unknown key \"extra\"", "hbm_copy"}},
        {"/gpu_memory/bytes", "0", {"gpu_memory.bytes: found 0", "positive integer"}},
        {"/gpu_memory/bytes", "1.5", {"gpu_memory.bytes"}},
        {"/gpu_memory/gib", "139", {"gpu_memory: unknown key \"gib\""}},
        {"/gemm", "{}", {"gemm: found {}", "at least one element type"}},
        {"/gemm/int8", "{}", {"unknown key \"int8\"", "bf16"}},
        {"/gemm/bf16/tflops", "0", {"gemm.bf16.tflops: found 0", "a number from"}},
        {"/gemm/bf16/tflops", "-655", {"found -655"}},
        {"/peak", "{}", {"peak: found {}", "at least one element type"}},
        {"/hbm_copy/gb_per_s", "\"fast\"", {"hbm_copy.gb_per_s: found \"fast\""}},
        {"/host_to_device/source", "\"\"", {"host_to_device.source", "where the number comes from"}},
        {"/attention_backward_causal/bf16/128/tflops", "0", {"attention_backward_causal.bf16.128.tflops: found 0"}},
        {"/attention_forward/bf16", "{}", {"attention_forward.bf16: found {}", "at least one head size"}},
        {"/attention_forward/bf16/x", "{}", {"attention_forward.bf16: unknown key \"x\"", "head sizes"}},
        {"/attention_forward/bf16/0", "{}", {"attention_forward.bf16: unknown key \"0\"", "head sizes"}},
        {"/attention_backward_deterministic/int8", "{}", {"attention_backward_deterministic: unknown key \"int8\""}},
        {"/gemm/bf16/wave_microseconds", "-1", {"gemm.bf16.wave_microseconds: found -1", "a number from"}},
        {"/multiprocessors/count", "0", {"multiprocessors.count: found 0", "positive integer"}},
        {"/passes/sort", "{}", {"passes: unknown key \"sort\"", "norm_backward"}},
        {"/passes/norm", "{\"gb_per_s\": 0, \"source\": \"x\"}", {"passes.norm.gb_per_s: found 0"}},
        {"/measured", "3", {"measured: found 3"}},
        {"/hbm_write/gb_per_s", "0", {"hbm_write.gb_per_s: found 0", "a number from"}},
        {"/launch/microseconds", "-1", {"launch.microseconds: found -1", "a number from"}},
        {"/launch/seconds", "1", {"launch: unknown key \"seconds\"", "microseconds"}},
        {"/device_to_host", "3", {"device_to_host: found 3", "an object"}},
    };
    for (const Bad& bad : cases) {
        CAPTURE(bad.pointer);
        CAPTURE(bad.value);
        Json profile = h200();
        profile[Json::json_pointer(std::string(bad.pointer))] = Json::parse(bad.value);
        const auto message =
            test::message_of<FileError>([&] { parse_hardware_profile(profile.dump(), "machine.json"); });
        test::check_contains(message, {"machine.json"});
        test::check_contains(message, bad.fragments);
    }
    const Json whole = h200();
    for (const auto& [key, value] : whole.items()) {
        Json profile = whole;
        profile.erase(key);
        if (key == "peak" || key == "measured" || key.ends_with("_deterministic")) {
            CHECK_FALSE(Json::parse(to_json(parse_hardware_profile(profile.dump(), "machine.json"))).contains(key));
            continue;
        }
        test::check_contains(
            test::message_of<FileError>([&] { parse_hardware_profile(profile.dump(), "machine.json"); }),
            {key, "missing"});
    }
}

}  // namespace oomb
