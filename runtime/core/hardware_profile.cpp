#include "runtime/core/hardware_profile.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb {

namespace {

constexpr std::string_view kFormat = "oomb-hardware-profile";
constexpr std::int64_t kVersion = 1;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kLeastRate = 1e-6;  // zero or less would divide time by nothing
constexpr double kMostRate = 1e9;
constexpr double kMicro = 1e-6;
constexpr double kMostMicroseconds = 1e6;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

void refuse_other_keys(const JsonNode& node, std::initializer_list<std::string_view> allowed) {
    for (const auto& [key, value] : node.as_object().value().items()) {
        if (std::ranges::find(allowed, key) != allowed.end()) {
            continue;
        }
        std::string names;
        for (const std::string_view name : allowed) {
            names.append(names.empty() ? "" : ", ").append(name);
        }
        fail<FileError>("{}: unknown key {}, allowed are {}", node.place(), quoted(Json(key)), names);
    }
}

std::string read_source(const JsonNode& node) {
    const std::string source = node.at("source").as_string();
    if (source.empty()) {
        node.at("source").refuse("where the number comes from");
    }
    return source;
}

SourcedBytes read_bytes(const JsonNode& node) {
    refuse_other_keys(node, {"bytes", "source"});
    return {node.at("bytes").as_integer(1, kMaxBytes), read_source(node)};
}

SourcedRate read_rate(const JsonNode& node, std::string_view key, double unit) {
    refuse_other_keys(node, {key, "source"});
    return {node.at(key).as_number(kLeastRate, kMostRate) * unit, read_source(node)};
}

SourcedRate read_bandwidth(const JsonNode& node) {
    return read_rate(node, "gb_per_s", kGiga);
}

SourcedSeconds read_duration(const JsonNode& node) {
    refuse_other_keys(node, {"microseconds", "source"});
    return {node.at("microseconds").as_number(0, kMostMicroseconds) * kMicro, read_source(node)};
}

std::map<DType, SourcedRate> read_flops(const JsonNode& node) {
    refuse_other_keys(node, {"fp64", "fp32", "bf16", "fp16"});
    std::map<DType, SourcedRate> rates;
    for (const auto& [key, value] : node.value().items()) {
        rates.emplace(parse_dtype(key), read_rate(node.at(key), "tflops", kTera));
    }
    if (rates.empty()) {
        node.refuse("a rate for at least one element type");
    }
    return rates;
}

void check_header(const JsonNode& root) {
    if (root.at("format").as_string() != kFormat) {
        root.at("format").refuse(fmt::format("\"{}\"", kFormat));
    }
    if (root.at("version").as_integer() != kVersion) {
        root.at("version").refuse(fmt::format("version {}, the one this program reads", kVersion));
    }
}

}  // namespace

HardwareProfile parse_hardware_profile(const std::string& json_text, const std::string& name_in_messages) {
    const Json document = parse_json(json_text, name_in_messages);
    const JsonNode root(document, name_in_messages);
    check_header(root);
    refuse_other_keys(root, {"format", "version", "name", "gpu_memory", "host_memory", "gemm", "attention_forward",
                             "attention_backward", "attention_forward_causal", "attention_backward_causal", "peak",
                             "hbm_copy", "hbm_read", "hbm_write", "host_to_device", "device_to_host",
                             "host_to_device_both", "device_to_host_both", "launch"});
    HardwareProfile profile;
    profile.name = root.at("name").as_string();
    profile.gpu_memory = read_bytes(root.at("gpu_memory"));
    profile.host_memory = read_bytes(root.at("host_memory"));
    profile.gemm_flops = read_flops(root.at("gemm"));
    profile.attention_forward_flops = read_flops(root.at("attention_forward"));
    profile.attention_backward_flops = read_flops(root.at("attention_backward"));
    profile.attention_forward_causal_flops = read_flops(root.at("attention_forward_causal"));
    profile.attention_backward_causal_flops = read_flops(root.at("attention_backward_causal"));
    if (root.has("peak")) {
        profile.peak_flops = read_flops(root.at("peak"));
    }
    profile.hbm_copy_bytes = read_bandwidth(root.at("hbm_copy"));
    profile.hbm_read_bytes = read_bandwidth(root.at("hbm_read"));
    profile.hbm_write_bytes = read_bandwidth(root.at("hbm_write"));
    profile.host_to_device_bytes = read_bandwidth(root.at("host_to_device"));
    profile.device_to_host_bytes = read_bandwidth(root.at("device_to_host"));
    profile.host_to_device_both_bytes = read_bandwidth(root.at("host_to_device_both"));
    profile.device_to_host_both_bytes = read_bandwidth(root.at("device_to_host_both"));
    profile.launch = read_duration(root.at("launch"));
    return profile;
}

HardwareProfile read_hardware_profile(const std::filesystem::path& path) {
    return parse_hardware_profile(read_text_file(path, JsonLimits{}.max_bytes), path.string());
}

}  // namespace oomb
