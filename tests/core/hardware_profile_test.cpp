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
    const HardwareProfile profile = read_hardware_profile(test::source_folder() / "hardware" / "h100_sxm.json");
    CHECK(profile.name.find("estimate") != std::string::npos);
    CHECK(profile.hbm_copy_bytes.per_second < 3350e9);
    for (const std::string& source :
         {profile.gpu_memory.source, profile.gemm_flops.at(DType::kBF16).source, profile.hbm_copy_bytes.source,
          profile.hbm_read_bytes.source, profile.hbm_write_bytes.source, profile.host_to_device_bytes.source,
          profile.attention_forward_flops.at(DType::kBF16).source, profile.launch.source}) {
        CHECK(source.starts_with("estimate"));
    }
}

TEST_CASE("the H200 profile is read with its units and sources") {
    const HardwareProfile profile = read_hardware_profile(test::source_folder() / "hardware" / "h200_sxm.json");
    CHECK(profile.name.find("H200") != std::string::npos);
    CHECK(format_bytes_short(profile.gpu_memory.bytes) == "139.8 GiB");
    CHECK(profile.host_memory.bytes == 125 * kGiB);
    CHECK(profile.gemm_flops.at(DType::kBF16).per_second == 708e12);
    CHECK(profile.attention_forward_flops.at(DType::kBF16).per_second == 569e12);
    CHECK(profile.attention_backward_flops.at(DType::kBF16).per_second == 498e12);
    CHECK(profile.attention_forward_causal_flops.at(DType::kBF16).per_second == 455e12);
    CHECK(profile.attention_backward_causal_flops.at(DType::kBF16).per_second == 376e12);
    CHECK(profile.peak_flops.at(DType::kBF16).per_second == 989.5e12);
    CHECK(profile.hbm_copy_bytes.per_second == 4100e9);
    CHECK(profile.hbm_read_bytes.per_second == 3464e9);
    CHECK(profile.hbm_write_bytes.per_second == 4570e9);
    CHECK(profile.host_to_device_bytes.per_second == 55.4e9);
    CHECK(profile.device_to_host_bytes.per_second == 55.3e9);
    CHECK(profile.host_to_device_both_bytes.per_second == 50.7e9);
    CHECK(profile.device_to_host_both_bytes.per_second == 50.7e9);
    CHECK(profile.launch.seconds == 6e-6);
    CHECK_FALSE(profile.gemm_flops.at(DType::kBF16).source.empty());
}

TEST_CASE("a wrong profile names the key") {
    struct Bad {
        std::string_view pointer;
        std::string_view value;
        std::initializer_list<std::string_view> fragments;
    };
    const Bad cases[] = {
        {"/format", "\"other\"", {"format: found \"other\"", "oomb-hardware-profile"}},
        {"/version", "2", {"version: found 2", "version 1"}},
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
        {"/attention_backward_causal/bf16/tflops", "0", {"attention_backward_causal.bf16.tflops: found 0"}},
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
        if (key == "peak") {
            CHECK(parse_hardware_profile(profile.dump(), "machine.json").peak_flops.empty());
            continue;
        }
        test::check_contains(
            test::message_of<FileError>([&] { parse_hardware_profile(profile.dump(), "machine.json"); }),
            {key, "missing"});
    }
}

}  // namespace oomb
