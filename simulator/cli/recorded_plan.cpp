#include "simulator/cli/recorded_plan.hpp"

#include <string>

#include "runtime/core/attention_kernels.hpp"
#include "runtime/core/checked.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb::simulator {
namespace {

// Far beyond what there is, and small enough that no product of a few of them leaves 64 bits unnoticed.
constexpr std::int64_t kMostLayers = 512;
constexpr std::int64_t kMostDimension = std::int64_t{1} << 24;
constexpr std::int64_t kMostParameters = std::int64_t{1} << 45;

// Plans of earlier programs do not say what a layer has beside its matrices; the number of parameters then does.
void find_switches(const JsonNode& node, ModelShape& model) {
    static constexpr std::pair<const char*, bool ModelShape::*> kSwitches[] = {
        {"tied_embeddings", &ModelShape::tied_embeddings},
        {"qkv_bias", &ModelShape::qkv_bias},
        {"output_bias", &ModelShape::output_bias},
        {"qk_norm", &ModelShape::qk_norm}};
    const std::int64_t parameters = node.at("parameters").as_integer(1, kMostParameters);
    for (unsigned bits = 0; bits < 16; ++bits) {
        bool possible = true;
        for (unsigned i = 0; i < 4; ++i) {
            const auto& [key, member] = kSwitches[i];
            model.*member = (bits >> i & 1) != 0;
            possible = possible && node.bool_or(key, model.*member) == model.*member;
        }
        if (possible && model.parameters() == parameters) {
            return;
        }
    }
    node.at("parameters").refuse("what a model of this shape has");
}

ModelShape read_model(const JsonNode& node) {
    ModelShape model;
    model.layers = node.at("layers").as_integer(1, kMostLayers);
    for (const auto& [key, member] : {std::pair{"hidden", &ModelShape::hidden},
                                      {"query_heads", &ModelShape::query_heads},
                                      {"kv_heads", &ModelShape::kv_heads},
                                      {"head_dim", &ModelShape::head_dim},
                                      {"ffn", &ModelShape::ffn},
                                      {"vocab", &ModelShape::vocab}}) {
        model.*member = node.at(key).as_integer(1, kMostDimension);
    }
    if (model.query_heads % model.kv_heads != 0) {
        node.at("query_heads").refuse(fmt::format("a multiple of the {} kv_heads", model.kv_heads));
    }
    find_switches(node, model);
    if (node.has("sliding_windows")) {
        const JsonNode windows = node.at("sliding_windows");
        if (static_cast<std::int64_t>(windows.as_array().size()) != model.layers) {
            windows.refuse(fmt::format("a number for each of the {} layers", model.layers));
        }
        for (std::int64_t layer = 0; layer < model.layers; ++layer) {
            model.sliding_windows.push_back(windows.item(layer).as_integer(0));
        }
    }
    return model;
}

// 0 is no budget, which is a flag that is not given.
std::string budget_as_typed(const JsonNode& node) {
    const std::int64_t bytes = node.as_integer(0);
    for (const auto& [unit, name] : {std::pair{kGiB, "GiB"}, {kMiB, "MiB"}}) {
        if (bytes > 0 && bytes % unit == 0) {
            return fmt::format("{}{}", bytes / unit, name);
        }
    }
    return bytes > 0 ? std::to_string(bytes) : "";
}

// A plan of earlier programs may say what is refused today because it has no effect.
void leave_out_what_nothing_reads(RunFlags& flags) {
    const RunFlags defaults;
    if (flags.keep == "none") {
        flags.kept_pages = defaults.kept_pages;
    }
    if (flags.no_optimizer) {
        flags.master_weights = defaults.master_weights;
        flags.optimizer_states = defaults.optimizer_states;
    }
}

// The words of the plan file are those of the flags.
RunFlags read_flags(const JsonNode& run) {
    RunFlags flags;
    const auto tokens = [&](const char* key) { return tokens_as_typed(run.at(key).as_integer(0)); };
    flags.device = run.at("device").as_string();
    flags.context = tokens("context_tokens");
    flags.chunk = tokens("chunk_tokens");
    flags.page_tokens = tokens("page_tokens");
    flags.window = tokens("window_tokens");
    flags.logit_tile = tokens("logit_tile_tokens");
    flags.attention = run.at("attention").as_string();
    const bool has_lists = flags.attention == "topk" || flags.attention == "random";
    flags.top_k = has_lists ? std::to_string(run.at("top_k").as_integer(1)) : "";
    if (flags.attention == "local") {
        flags.local_window = tokens("local_window");
        const bool has_sinks = run.at("sinks").as_integer(0) > 0;
        flags.sinks = has_sinks ? tokens("sinks") : "";
    }
    if (run.has("attention_kernels")) {
        flags.attention_kernels = run.at("attention_kernels").as_string();
    }
    flags.offload = run.at("offload").as_string();
    flags.keep = run.at("keep").as_string();
    flags.kept_pages = run.at("kept_pages").as_string();
    flags.held_chunks = run.at("held_chunks").as_string();
    flags.held_chunks = flags.held_chunks == "0" ? "" : flags.held_chunks;  // so that --keep all can be given
    flags.hbm_pages = run.at("hbm_pages").as_string();
    if (run.has("gradient_pages")) {
        flags.gradient_pages = run.at("gradient_pages").as_string();
    }
    flags.optimizer_states = run.at("optimizer_states").as_string();
    flags.dtype = run.at("compute_dtype").as_string();
    flags.gradient_dtype = run.at("gradient_dtype").as_string();
    flags.gradient_dtype = flags.dtype == "bf16" && flags.gradient_dtype == "bf16" ? "bf16" : "";
    flags.master_weights = run.at("master_weights").as_string() == "remainder" ? "remainder" : "fp32";
    flags.no_optimizer = !run.at("optimizer").as_bool();
    flags.deterministic = run.at("deterministic").as_bool();
    flags.gpu_memory = budget_as_typed(run.at("gpu_memory_bytes"));
    flags.host_memory = budget_as_typed(run.at("host_memory_bytes"));
    leave_out_what_nothing_reads(flags);
    return flags;
}

// What was decided takes the place of what was left to auto.
RunConfiguration decided(RunConfiguration run, const JsonNode& node, const RunFlags& flags) {
    RunFlags named = flags;
    named.keep = node.at("keep").as_string();
    named.keep_is_free = true;  // "none" may be what auto came to
    run.keep = to_run_configuration(named).keep;
    if (chooses_attention_kernels(run)) {  // plans of earlier programs do not say: theirs was cuDNN
        named.attention_kernels = node.has("attention_kernels") ? node.at("attention_kernels").as_string() : "cudnn";
        run.attention_kernels = to_run_configuration(named).attention_kernels;
    }
    const auto count = [](const JsonNode& number) { return Amount{Amount::Mode::kCount, number.as_integer(0)}; };
    run.held_chunks = count(node.at("held_chunks"));
    const JsonNode kept = node.at("kept_pages");
    run.kept_pages = {Amount::Mode::kCount,
                      add_checked(kept.at("hbm").as_integer(0), kept.at("host").as_integer(0), kept.place())};
    run.resident_shards = count(node.at("optimizer_shards").at("hbm"));
    if (run.offload == Offload::kHost && run.hbm_pages.mode == HbmPages::Mode::kAuto) {
        run.hbm_pages = {HbmPages::Mode::kCount, node.at("resident_pages").as_integer(0)};
    }
    return run;
}

// Of a pool what the schedule depends on.
Json pools_of(const JsonNode& pools) {
    Json list = Json::array();
    for (std::size_t i = 0; i < pools.as_array().size(); ++i) {
        const JsonNode pool = pools.item(i);
        list.push_back({pool.at("tier").value(), pool.at("page_class").value(), pool.at("frames").value(),
                        pool.at("plane_bytes").value()});
    }
    return list;
}

void check_same(const JsonNode& recorded, const schedule::Plan& plan) {
    const Json planned = Json::parse(schedule::to_json(plan));
    for (const char* key : {"resident_pages", "keep", "held_chunks", "kept_pages", "optimizer_shards"}) {
        if (recorded.at(key).value() != planned.at(key)) {
            recorded.at(key).refuse(
                fmt::format("{}, what this program plans for that run; a trace is replayed with "
                            "the version that wrote it",
                            planned.at(key).dump()));
        }
    }
    if (pools_of(recorded.at("pools")) != pools_of(JsonNode(planned, recorded.file()).at("pools"))) {
        fail<FileError>(
            "{}: not the pools of pages that this program plans for that run; a trace is replayed with the version "
            "that wrote it",
            recorded.at("pools").place());
    }
}

}  // namespace

RecordedPlan recorded_plan(const JsonNode& node) {
    RecordedPlan recorded;
    const ModelShape model = read_model(node.at("model").as_object());
    recorded.flags = read_flags(node.at("run").as_object());
    try {
        const RunConfiguration asked = to_run_configuration(recorded.flags);
        recorded.plan = schedule::make_plan(model, decided(asked, node, recorded.flags));
        recorded.plan.asked = asked;
    } catch (const UsageError& error) {  // nobody typed these
        fail<FileError>("{}: {}", node.at("run").place(), error.what());
    }
    check_same(node, recorded.plan);
    return recorded;
}

}  // namespace oomb::simulator
