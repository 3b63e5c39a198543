#include "runtime/core/rope_config.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "runtime/core/config_support.hpp"
#include "runtime/core/error.hpp"

namespace oomb {

namespace {

constexpr double kMaxTheta = 1e30;  // stays finite in fp32, as the powers of it must
constexpr double kMaxFactor = 1e9;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 40;

// What the objects `rope_parameters` and `rope_scaling` are read against.
struct Context {
    std::optional<double> outer_theta;  // `rope_theta` beside the object
    std::optional<std::int64_t> outer_original;
    std::int64_t max_positions = 0;
};

double read_theta(const JsonNode& node) {
    const double theta = node.as_number(0, kMaxTheta);
    if (theta <= 1) {
        node.refuse("a number above 1");
    }
    return theta;
}

std::string read_type(const JsonNode& node) {
    const std::string type = node.string_or("rope_type", "default");
    const std::string old_type = node.string_or("type", type);
    if (node.has("rope_type") && old_type != type) {
        fail<FileError>("{}: rope_type is {} but type is {}; they must be the same", node.place(),
                        quoted(node.at("rope_type").value()), quoted(node.at("type").value()));
    }
    return old_type;
}

void refuse_other_keys(const JsonNode& node, const std::string& type, std::span<const std::string_view> allowed) {
    constexpr std::array<std::string_view, 4> kAlways{"rope_type", "type", "rope_theta", "finetuned"};
    for (const auto& [key, value] : node.value().items()) {
        const bool is_known =
            std::ranges::find(allowed, key) != allowed.end() || std::ranges::find(kAlways, key) != kAlways.end();
        if (key == "partial_rotary_factor" && value.is_number() && value == 1) {
            continue;
        }
        if (!is_known && !value.is_null()) {
            refuse_meaning(node.at(key), fmt::format("something that RoPE of type {} does not have", type));
        }
    }
}

std::int64_t read_original(const JsonNode& node, const Context& context) {
    if (context.outer_original) {
        return *context.outer_original;
    }
    return node.integer_or("original_max_position_embeddings", context.max_positions, 1, kMaxPositions);
}

double read_factor(const JsonNode& node) {
    return node.at("factor").as_number(1, kMaxFactor);
}

void read_llama3(const JsonNode& node, const Context& context, Rope& rope) {
    rope.scaling = RopeScaling::kLlama3;
    rope.factor = read_factor(node);
    rope.original_max_positions = read_original(node, context);
    constexpr double kLeastFactor = 1e-6;
    rope.low_freq_factor = node.at("low_freq_factor").as_number(kLeastFactor, kMaxFactor);
    rope.high_freq_factor = node.at("high_freq_factor").as_number(kLeastFactor, kMaxFactor);
    if (rope.high_freq_factor <= rope.low_freq_factor) {
        node.at("high_freq_factor").refuse(fmt::format("a number above low_freq_factor, {}", rope.low_freq_factor));
    }
}

void read_yarn(const JsonNode& node, const Context& context, Rope& rope) {
    rope.scaling = RopeScaling::kYarn;
    rope.original_max_positions = read_original(node, context);
    // An explicit null means the ratio of the two lengths; an absent factor is an error, as in transformers.
    if (node.at("factor").value().is_null()) {
        rope.factor = static_cast<double>(context.max_positions) / static_cast<double>(rope.original_max_positions);
        if (rope.factor < 1) {
            node.at("factor").refuse("a number, as original_max_position_embeddings passes max_position_embeddings");
        }
    } else {
        rope.factor = read_factor(node);
    }
    const auto or_default = [&node](std::string_view key, double fallback) {
        const double given = node.number_or(key, 0, 0, kMaxFactor);
        return given > 0 ? given : fallback;  // transformers takes 0 as not given
    };
    rope.beta_fast = or_default("beta_fast", 32);
    rope.beta_slow = or_default("beta_slow", 1);
    if (rope.beta_fast < rope.beta_slow) {
        fail<FileError>("{}: beta_fast is {}, expected at least beta_slow, {}", node.place(), rope.beta_fast,
                        rope.beta_slow);
    }
    rope.mscale = or_default("mscale", 0);
    rope.mscale_all_dim = or_default("mscale_all_dim", 0);
    if (node.has("attention_factor")) {
        rope.attention_factor = node.at("attention_factor").as_number(0, kMaxFactor);
        if (rope.attention_factor == 0) {
            node.at("attention_factor").refuse("a number above 0");
        }
    }
    rope.truncate = node.bool_or("truncate", true);
}

void read_scaling(const JsonNode& node, const Context& context, Rope& rope) {
    constexpr std::array<std::string_view, 1> kLinear{"factor"};
    constexpr std::array<std::string_view, 4> kLlama3{"factor", "low_freq_factor", "high_freq_factor",
                                                      "original_max_position_embeddings"};
    constexpr std::array<std::string_view, 8> kYarn{"factor",    "original_max_position_embeddings",
                                                    "beta_fast", "beta_slow",
                                                    "mscale",    "mscale_all_dim",
                                                    "truncate",  "attention_factor"};
    const std::string type = read_type(node);
    if (type == "default") {
        refuse_other_keys(node, type, {});
    } else if (type == "linear") {
        refuse_other_keys(node, type, kLinear);
        rope.scaling = RopeScaling::kLinear;
        rope.factor = read_factor(node);
    } else if (type == "llama3") {
        refuse_other_keys(node, type, kLlama3);
        read_llama3(node, context, rope);
    } else if (type == "yarn") {
        refuse_other_keys(node, type, kYarn);
        read_yarn(node, context, rope);
    } else {
        fail<UnsupportedError>("{}: RoPE of type {} is not computed; supported are default, linear, llama3 and yarn",
                               node.place(), quoted(Json(type)));
    }
}

void refuse_per_layer_type(const JsonNode& node) {
    for (const auto& [key, value] : node.as_object().value().items()) {
        if (value.is_object()) {
            refuse_meaning(node.at(key), "a RoPE for each type of layer");
        }
    }
}

// `theta_required` for the new spelling, where transformers keeps theta.
Rope read_object(const JsonNode& node, const Context& context, bool theta_required) {
    refuse_per_layer_type(node);
    Rope rope;
    if (node.has("rope_theta")) {
        rope.theta = read_theta(node.at("rope_theta"));
        if (context.outer_theta && *context.outer_theta != rope.theta) {
            fail<FileError>("{}: rope_theta is {} here and {} outside of it; keep one of them", node.place(),
                            rope.theta, *context.outer_theta);
        }
    } else if (context.outer_theta) {
        rope.theta = *context.outer_theta;
    } else if (theta_required) {
        fail<FileError>(
            "{}: rope_theta: missing; a config with rope_parameters must name it (10000 is transformers' default)",
            node.place());
    } else {
        rope.theta_is_default = true;
    }
    read_scaling(node, context, rope);
    return rope;
}

}  // namespace

Rope read_rope(const JsonNode& config, ModelFamily family, std::int64_t max_positions,
               std::vector<std::string>& notes) {
    Context context;
    context.max_positions = max_positions;
    if (config.has("rope_theta")) {
        context.outer_theta = read_theta(config.at("rope_theta"));
    }
    if (config.has("original_max_position_embeddings")) {
        context.outer_original = config.at("original_max_position_embeddings").as_integer(1, kMaxPositions);
    }
    const Json empty = Json::object();
    const bool has_new = config.has("rope_parameters");
    const bool has_old = config.has("rope_scaling");
    Rope rope = has_new
                    ? read_object(config.at("rope_parameters"), context, true)
                    : read_object(has_old ? config.at("rope_scaling") : JsonNode(empty, config.file()), context, false);
    if (has_new && has_old) {
        context.outer_theta = rope.theta;
        if (read_object(config.at("rope_scaling"), context, false) != rope) {
            fail<FileError>("{}: rope_parameters and rope_scaling disagree; keep one of them", config.file());
        }
    }
    if (rope.theta_is_default) {
        notes.push_back(fmt::format("{} names no rope_theta: {}, transformers' default for {}, was taken.",
                                    config.file(), rope.theta, name_of(family)));
    }
    return rope;
}

}  // namespace oomb
