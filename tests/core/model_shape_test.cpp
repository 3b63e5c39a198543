#include "runtime/core/model_shape.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/core/configs.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"

namespace oomb {
using test::changed;

namespace {

ModelShape shape_of(std::string_view family, std::string_view changes = "{}") {
    return parse_model_shape(changed(family, changes), "config.json");
}

bool has_note(const ModelShape& shape, std::string_view fragment) {
    for (const std::string& note : shape.notes) {
        if (note.find(fragment) != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace

TEST_CASE("the shapes in models/ have the published numbers of parameters, and leave nothing to assume") {
    const std::pair<std::string_view, std::int64_t> models[] = {{"qwen2.5-7b", 7'615'616'512},
                                                                {"llama-3.1-8b", 8'030'261'248},
                                                                {"qwen3-8b", 8'190'735'360},
                                                                {"mistral-7b-v0.3", 7'248'023'552},
                                                                {"smollm2-135m", 134'515'008}};
    for (const auto& [name, parameters] : models) {
        CAPTURE(name);
        const ModelShape shape = read_model_shape(test::source_folder() / "models" / fmt::format("{}.json", name));
        CHECK(shape.parameters() == parameters);
        CHECK(shape.stored_dtype == DType::kBF16);
        CHECK(shape.notes.empty());
    }
}

TEST_CASE("Qwen2.5-7B is read field by field") {
    const ModelShape shape = read_model_shape(test::source_folder() / "models" / "qwen2.5-7b.json");
    CHECK(shape.family == ModelFamily::kQwen2);
    CHECK(shape.layers == 28);
    CHECK(shape.hidden == 3584);
    CHECK(shape.query_heads == 28);
    CHECK(shape.kv_heads == 4);
    CHECK(shape.head_dim == 128);
    CHECK(shape.group() == 7);
    CHECK(shape.query_width() == 3584);
    CHECK(shape.kv_width() == 512);
    CHECK(shape.ffn == 18944);
    CHECK(shape.vocab == 152064);
    CHECK(shape.max_positions == 131072);
    CHECK(shape.rms_norm_eps == 1e-6);
    CHECK_FALSE(shape.tied_embeddings);
    CHECK(shape.rope == Rope{.theta = 1e6});
}

TEST_CASE("biases and norms are those that transformers builds") {
    struct Expected {
        std::string_view family, changes;
        bool qkv_bias, output_bias, qk_norm;
    };
    const Expected cases[] = {{"llama", "{}", false, false, false},
                              {"llama", R"({"attention_bias": true})", true, true, false},
                              {"qwen3", "{}", false, false, true},
                              {"qwen3", R"({"attention_bias": true, "qk_norm": true})", true, true, true},
                              {"qwen2", "{}", true, false, false},
                              {"qwen2", R"({"attention_bias": true})", true, false, false},
                              {"mistral", R"({"attention_bias": false})", false, false, false}};
    for (const Expected& expected : cases) {
        CAPTURE(expected.family);
        CAPTURE(expected.changes);
        const ModelShape shape = shape_of(expected.family, expected.changes);
        CHECK(shape.qkv_bias == expected.qkv_bias);
        CHECK(shape.output_bias == expected.output_bias);
        CHECK(shape.qk_norm == expected.qk_norm);
    }
    // 64 (4+2+2) 16 + 4 16 64 + 3 64 96 + 2 64 a layer, three layers, two ends of 128 64, the last norm.
    const std::int64_t plain = 3 * (64 * 128 + 64 * 64 + 3 * 64 * 96 + 2 * 64) + 2 * 128 * 64 + 64;
    CHECK(shape_of("llama").parameters() == plain);
    CHECK(shape_of("llama", R"({"tie_word_embeddings": true})").parameters() == plain - 128 * 64);
    CHECK(shape_of("llama", R"({"attention_bias": true})").parameters() == plain + 3 * (128 + 64));
    CHECK(shape_of("qwen2").parameters() == plain + 3 * 128);
    CHECK(shape_of("qwen3").parameters() == plain + 3 * 2 * 16);
}

TEST_CASE("what the config leaves out is transformers' default, with a note") {
    CHECK(shape_of("llama").notes.empty());
    const ModelShape early = shape_of("llama", R"({"rope_theta": "<absent>", "num_key_value_heads": "<absent>",
        "head_dim": "<absent>", "tie_word_embeddings": "<absent>", "max_position_embeddings": "<absent>",
        "rms_norm_eps": "<absent>", "torch_dtype": "<absent>", "hidden_act": "<absent>"})");
    CHECK(early.rope.theta == 10000);
    CHECK(early.rope.theta_is_default);
    CHECK(has_note(early, "config.json names no rope_theta: 10000, transformers' default for llama"));
    CHECK(early.kv_heads == 4);
    CHECK(early.head_dim == 16);
    CHECK(early.max_positions == 2048);
    CHECK(has_note(early, "max_position_embeddings: 2048"));
    CHECK(early.rms_norm_eps == 1e-6);
    CHECK(has_note(early, "rms_norm_eps"));
    CHECK_FALSE(early.tied_embeddings);
    CHECK(early.stored_dtype == DType::kF32);
    CHECK(has_note(early, "no dtype: fp32"));
    for (const std::string_view family : {"mistral", "qwen2", "qwen3"}) {
        CHECK(shape_of(family, R"({"rope_theta": "<absent>"})").rope.theta == 10000);
    }
    const ModelShape qwen3 = shape_of("qwen3", R"({"head_dim": "<absent>"})");
    CHECK(qwen3.head_dim == 128);
    CHECK(has_note(qwen3, "head_dim: 128"));
    const ModelShape mistral = shape_of("mistral", R"({"num_key_value_heads": "<absent>", "num_attention_heads": 16})");
    CHECK(mistral.kv_heads == 8);
    CHECK(has_note(mistral, "num_key_value_heads: 8"));
}

TEST_CASE("head_dim may be explicit, null or derived") {
    CHECK(shape_of("llama", R"({"head_dim": 32})").query_width() == 128);
    CHECK(shape_of("qwen2", R"({"head_dim": 32})").head_dim == 32);
    CHECK(shape_of("mistral", R"({"head_dim": null})").head_dim == 16);
    CHECK(shape_of("llama", R"({"head_dim": 32, "hidden_size": 63})").head_dim == 32);
    CHECK(shape_of("llama", R"({"num_key_value_heads": null})").kv_heads == 4);
}

TEST_CASE("both spellings of the element type are read, and dtype wins") {
    const std::pair<std::string_view, DType> names[] = {
        {"bfloat16", DType::kBF16}, {"float16", DType::kF16}, {"float32", DType::kF32}, {"torch.float64", DType::kF64}};
    for (const auto& [name, type] : names) {
        CHECK(shape_of("llama", fmt::format(R"({{"torch_dtype": "{}"}})", name)).stored_dtype == type);
        CHECK(shape_of("llama", fmt::format(R"({{"torch_dtype": "<absent>", "dtype": "{}"}})", name)).stored_dtype ==
              type);
    }
    CHECK(shape_of("llama", R"({"dtype": "float16", "torch_dtype": "float32"})").stored_dtype == DType::kF16);
}

TEST_CASE("windows that are given but not in use pass") {
    for (const std::string_view family : {"qwen2", "qwen3"}) {
        CHECK(shape_of(family, R"({"use_sliding_window": false, "sliding_window": 4096})").notes.empty());
        CHECK(shape_of(family, R"({"use_sliding_window": true, "sliding_window": null, "max_window_layers": 0})")
                  .layers == 3);
        CHECK(shape_of(family, R"({"sliding_window": 4096,
            "layer_types": ["full_attention", "full_attention", "full_attention"]})")
                  .layers == 3);
        const ModelShape late =
            shape_of(family, R"({"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 3})");
        CHECK(has_note(late, "max_window_layers 3"));
    }
    CHECK(shape_of("mistral", R"({"sliding_window": null})").layers == 3);
    CHECK(shape_of("llama", R"({"sliding_window": 4096, "use_sliding_window": false})").layers == 3);
}

TEST_CASE("sliding windows in use, by layer, as transformers reads them") {
    const auto windows = [](std::string_view family, std::string_view changes) {
        return shape_of(family, changes).sliding_windows;
    };
    using Windows = std::vector<std::int64_t>;
    for (const std::string_view family : {"qwen2", "qwen3"}) {
        CHECK(windows(family, R"({"use_sliding_window": true, "sliding_window": 40, "max_window_layers": 2})") ==
              Windows{0, 0, 40});
        CHECK(windows(family, R"({"use_sliding_window": true, "sliding_window": 40, "max_window_layers": 0})") ==
              Windows{40, 40, 40});
        // Layer types go before max_window_layers, whose default is 28.
        CHECK(windows(family, R"({"use_sliding_window": true, "sliding_window": 40,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})") == Windows{40, 0, 40});
        CHECK(windows(family, R"({"use_sliding_window": true, "sliding_window": 40})").empty());
        const ModelShape absent =
            shape_of(family, R"({"use_sliding_window": true, "sliding_window": "<absent>", "max_window_layers": 1})");
        CHECK(absent.sliding_windows == Windows{0, 4096, 4096});
        CHECK(has_note(absent, "sliding_window: 4096"));
        CHECK(absent.sliding_window(0) == 0);
        CHECK(absent.sliding_window(2) == 4096);
    }
    CHECK(windows("mistral", R"({"sliding_window": 4096})") == Windows{4096, 4096, 4096});
    const ModelShape absent = shape_of("mistral", R"({"sliding_window": "<absent>"})");
    CHECK(absent.sliding_windows == Windows{4096, 4096, 4096});
    CHECK(has_note(absent, "sliding_window: 4096"));
    CHECK(windows("mistral", R"({"sliding_window": null})").empty());
}

TEST_CASE("neutral values of foreign keys pass, and unknown keys are named") {
    const ModelShape neutral = shape_of("llama", R"({"num_experts": 0, "mlp_bias": false, "partial_rotary_factor": 1.0,
        "quantization_config": null, "attention_dropout": 0.0, "mlp_only_layers": [], "pretraining_tp": 2,
        "architectures": ["LlamaForCausalLM"], "hidden_act": "swish", "use_mrope": false, "use_rope": true})");
    CHECK(neutral.notes.empty());
    const ModelShape early = shape_of("llama", R"({"architectures": ["LLaMAForCausalLM"]})");
    CHECK(early.notes.empty());
    const ModelShape unknown = shape_of("llama", R"({"my_note": "hello", "zeta": [1]})");
    CHECK(unknown.notes.size() == 1);
    CHECK(has_note(unknown, "\"my_note\", \"zeta\""));
    Json many = test::small_config("llama");
    for (int i = 0; i < 1000; ++i) {
        many[fmt::format("key{}", i)] = i;
    }
    CHECK(has_note(parse_model_shape(many.dump(), "config.json"), "and 992 more"));
}

TEST_CASE("a folder stands for the config.json in it") {
    const test::ScratchFolder folder;
    folder.write("config.json", test::small_config("llama").dump());
    CHECK(read_model_shape(folder.path()).layers == 3);
    CHECK(read_model_shape(folder.path() / "config.json").layers == 3);
    std::filesystem::remove(folder.path() / "config.json");
    test::check_contains(test::message_of<FileError>([&] { read_model_shape(folder.path()); }),
                         {"config.json", "No such file"});
}

}  // namespace oomb
