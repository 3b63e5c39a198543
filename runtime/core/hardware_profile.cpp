#include "runtime/core/hardware_profile.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <span>
#include <vector>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb {

namespace {

constexpr std::string_view kFormat = "oomb-hardware-profile";
constexpr std::int64_t kVersion = 2;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kLeastRate = 1e-6;  // zero or less would divide time by nothing
constexpr double kMostRate = 1e9;
constexpr double kMicro = 1e-6;
constexpr double kMostMicroseconds = 1e6;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostMultiprocessors = 1 << 16;
constexpr std::int64_t kMostHeadSize = 1 << 16;

// The keys of each kind of number, for reader and writer.
template <class T>
struct Key {
    std::string_view name;
    T HardwareProfile::*member;
};
constexpr Key<SourcedBytes> kSizes[] = {{"gpu_memory", &HardwareProfile::gpu_memory},
                                        {"host_memory", &HardwareProfile::host_memory}};
constexpr Key<HeadRates> kAttention[] = {
    {"attention_forward", &HardwareProfile::attention_forward_flops},
    {"attention_backward", &HardwareProfile::attention_backward_flops},
    {"attention_forward_causal", &HardwareProfile::attention_forward_causal_flops},
    {"attention_backward_causal", &HardwareProfile::attention_backward_causal_flops}};
constexpr Key<HeadRates> kOptionalAttention[] = {
    {"attention_backward_deterministic", &HardwareProfile::attention_backward_deterministic_flops},
    {"attention_backward_causal_deterministic", &HardwareProfile::attention_backward_causal_deterministic_flops},
    {"own_attention_forward", &HardwareProfile::own_attention_forward_flops},
    {"own_attention_backward", &HardwareProfile::own_attention_backward_flops},
    {"own_attention_forward_causal", &HardwareProfile::own_attention_forward_causal_flops},
    {"own_attention_backward_causal", &HardwareProfile::own_attention_backward_causal_flops},
    {"own_attention_backward_deterministic", &HardwareProfile::own_attention_backward_deterministic_flops},
    {"own_attention_backward_causal_deterministic",
     &HardwareProfile::own_attention_backward_causal_deterministic_flops}};
constexpr Key<SourcedRate> kBandwidths[] = {{"gemm_sum", &HardwareProfile::gemm_sum_bytes},
                                            {"hbm_copy", &HardwareProfile::hbm_copy_bytes},
                                            {"hbm_read", &HardwareProfile::hbm_read_bytes},
                                            {"hbm_write", &HardwareProfile::hbm_write_bytes},
                                            {"host_to_device", &HardwareProfile::host_to_device_bytes},
                                            {"device_to_host", &HardwareProfile::device_to_host_bytes},
                                            {"host_to_device_both", &HardwareProfile::host_to_device_both_bytes},
                                            {"device_to_host_both", &HardwareProfile::device_to_host_both_bytes}};
constexpr Key<SourcedSeconds> kDurations[] = {{"launch", &HardwareProfile::launch},
                                              {"copy_start", &HardwareProfile::copy_start},
                                              {"submit", &HardwareProfile::submit},
                                              {"submit_page", &HardwareProfile::submit_page}};

void refuse_other_keys(const JsonNode& node, std::span<const std::string_view> allowed) {
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

void refuse_other_keys(const JsonNode& node, std::initializer_list<std::string_view> allowed) {
    refuse_other_keys(node, std::span(allowed.begin(), allowed.size()));
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

SourcedCount read_count(const JsonNode& node) {
    refuse_other_keys(node, {"count", "source"});
    return {node.at("count").as_integer(1, kMostMultiprocessors), read_source(node)};
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

SourcedRate read_flops(const JsonNode& node) {
    return read_rate(node, "tflops", kTera);
}

TileRate read_tiles(const JsonNode& node) {
    refuse_other_keys(node, {"tflops", "wave_microseconds", "source"});
    return {node.at("tflops").as_number(kLeastRate, kMostRate) * kTera,
            node.at("wave_microseconds").as_number(0, kMostMicroseconds) * kMicro, read_source(node)};
}

// {"<dtype>": what `read` makes of the value, ...}
template <class T>
std::map<DType, T> read_types(const JsonNode& node, T (*read)(const JsonNode&)) {
    refuse_other_keys(node, {"fp64", "fp32", "bf16", "fp16"});
    std::map<DType, T> rates;
    for (const auto& [key, value] : node.value().items()) {
        rates.emplace(parse_dtype(key), read(node.at(key)));
    }
    if (rates.empty()) {
        node.refuse("a rate for at least one element type");
    }
    return rates;
}

std::map<std::int64_t, TileRate> read_heads(const JsonNode& node) {
    std::map<std::int64_t, TileRate> rates;
    for (const auto& [key, value] : node.as_object().value().items()) {
        std::int64_t head_dim = 0;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), head_dim);
        if (error != std::errc{} || end != key.data() + key.size() || head_dim < 1 || head_dim > kMostHeadSize) {
            fail<FileError>("{}: unknown key {}, allowed are head sizes", node.place(), quoted(Json(key)));
        }
        rates.emplace(head_dim, read_tiles(node.at(key)));
    }
    if (rates.empty()) {
        node.refuse("a rate for at least one head size");
    }
    return rates;
}

void check_header(const JsonNode& root) {
    if (root.at("format").as_string() != kFormat) {
        root.at("format").refuse(fmt::format("\"{}\"", kFormat));
    }
    if (root.at("version").as_integer() != kVersion) {
        root.at("version").refuse(fmt::format(
            "version {}, the one this program reads; oomb-plan calibrate measures a profile anew", kVersion));
    }
}

void check_keys(const JsonNode& root) {
    std::vector<std::string_view> allowed = {"format",          "version", "name", "measured",
                                             "multiprocessors", "gemm",    "peak", "passes"};
    const auto allow = [&](const auto& keys) {
        for (const auto& key : keys) {
            allowed.push_back(key.name);
        }
    };
    allow(kSizes);
    allow(kAttention);
    allow(kOptionalAttention);
    allow(kBandwidths);
    allow(kDurations);
    refuse_other_keys(root, allowed);
}

}  // namespace

HardwareProfile parse_hardware_profile(const std::string& json_text, const std::string& name_in_messages) {
    const Json document = parse_json(json_text, name_in_messages);
    const JsonNode root(document, name_in_messages);
    check_header(root);
    check_keys(root);
    HardwareProfile profile;
    profile.name = root.at("name").as_string();
    profile.measured = root.string_or("measured", "");
    for (const auto& [name, member] : kSizes) {
        profile.*member = read_bytes(root.at(name));
    }
    profile.multiprocessors = read_count(root.at("multiprocessors"));
    profile.gemm_flops = read_types(root.at("gemm"), read_tiles);
    for (const auto& [name, member] : kAttention) {
        profile.*member = read_types(root.at(name), read_heads);
    }
    for (const auto& [name, member] : kOptionalAttention) {
        if (root.has(name)) {
            profile.*member = read_types(root.at(name), read_heads);
        }
    }
    if (root.has("peak")) {
        profile.peak_flops = read_types(root.at("peak"), read_flops);
    }
    for (const auto& [name, member] : kBandwidths) {
        profile.*member = read_bandwidth(root.at(name));
    }
    for (const auto& [name, member] : kDurations) {
        profile.*member = read_duration(root.at(name));
    }
    const JsonNode passes = root.at("passes");
    refuse_other_keys(passes, kPasses);
    for (const auto& [name, value] : passes.value().items()) {
        profile.pass_bytes.emplace(name, read_bandwidth(passes.at(name)));
    }
    return profile;
}

HardwareProfile read_hardware_profile(const std::filesystem::path& path) {
    return parse_hardware_profile(read_text_file(path, JsonLimits{}.max_bytes), path.string());
}

namespace {

using Ordered = nlohmann::ordered_json;

// Readings are not known to more than a few digits; the shortest text that holds six.
double six_digits(double value) {
    return std::stod(fmt::format("{:.6g}", value));
}

Ordered rate_json(const SourcedRate& rate, const char* key, double unit) {
    return {{key, six_digits(rate.per_second / unit)}, {"source", rate.source}};
}

Ordered tiles_json(const TileRate& rate) {
    return {{"tflops", six_digits(rate.per_second / kTera)},
            {"wave_microseconds", six_digits(rate.wave_seconds / kMicro)},
            {"source", rate.source}};
}

Ordered heads_json(const HeadRates& rates) {
    Ordered json;
    for (const auto& [dtype, heads] : rates) {
        for (const auto& [head_dim, rate] : heads) {
            json[std::string(name_of(dtype))][std::to_string(head_dim)] = tiles_json(rate);
        }
    }
    return json;
}

}  // namespace

std::string to_json(const HardwareProfile& profile) {
    Ordered json = {{"format", kFormat}, {"version", kVersion}, {"name", profile.name}};
    if (!profile.measured.empty()) {
        json["measured"] = profile.measured;
    }
    for (const auto& [name, member] : kSizes) {
        json[name] = {{"bytes", (profile.*member).bytes}, {"source", (profile.*member).source}};
    }
    json["multiprocessors"] = {{"count", profile.multiprocessors.count}, {"source", profile.multiprocessors.source}};
    for (const auto& [dtype, rate] : profile.gemm_flops) {
        json["gemm"][std::string(name_of(dtype))] = tiles_json(rate);
    }
    for (const auto& keys :
         {std::span<const Key<HeadRates>>(kAttention), std::span<const Key<HeadRates>>(kOptionalAttention)}) {
        for (const auto& [name, member] : keys) {
            if (!(profile.*member).empty()) {
                json[name] = heads_json(profile.*member);
            }
        }
    }
    for (const auto& [dtype, rate] : profile.peak_flops) {
        json["peak"][std::string(name_of(dtype))] = rate_json(rate, "tflops", kTera);
    }
    for (const auto& [name, member] : kBandwidths) {
        json[name] = rate_json(profile.*member, "gb_per_s", kGiga);
    }
    json["passes"] = Ordered::object();
    for (const auto& [name, rate] : profile.pass_bytes) {
        json["passes"][name] = rate_json(rate, "gb_per_s", kGiga);
    }
    for (const auto& [name, member] : kDurations) {
        const SourcedSeconds& duration = profile.*member;
        json[name] = {{"microseconds", six_digits(duration.seconds / kMicro)}, {"source", duration.source}};
    }
    return json.dump(2) + "\n";
}

}  // namespace oomb
