#include <nlohmann/json.hpp>

#include "runtime/schedule/plan.hpp"

namespace oomb::schedule {
namespace {

using Json = nlohmann::ordered_json;

Json model_to_json(const ModelShape& model) {
    Json json = {{"layers", model.layers},
                 {"hidden", model.hidden},
                 {"query_heads", model.query_heads},
                 {"kv_heads", model.kv_heads},
                 {"head_dim", model.head_dim},
                 {"ffn", model.ffn},
                 {"vocab", model.vocab},
                 {"tied_embeddings", model.tied_embeddings},
                 {"qkv_bias", model.qkv_bias},
                 {"output_bias", model.output_bias},
                 {"qk_norm", model.qk_norm},
                 {"parameters", model.parameters()}};
    if (!model.sliding_windows.empty()) {
        json["sliding_windows"] = model.sliding_windows;
    }
    return json;
}

Json run_to_json(const RunConfiguration& run) {
    Json json = {{"device", name_of(run.device)},
                 {"context_tokens", run.context_tokens},
                 {"chunk_tokens", run.chunk_tokens},
                 {"page_tokens", run.page_tokens},
                 {"window_tokens", run.window_tokens},
                 {"logit_tile_tokens", run.logit_tile_tokens},
                 {"attention", name_of(run.attention)},
                 {"top_k", run.top_k},
                 {"offload", name_of(run.offload)},
                 {"keep", name_of(run.keep)},
                 {"kept_pages", to_text(run.kept_pages)},
                 {"held_chunks", to_text(run.held_chunks)},
                 {"hbm_pages", to_text(run.hbm_pages)},
                 {"compute_dtype", name_of(run.compute)},
                 {"accumulator_dtype", name_of(run.accumulator)},
                 {"gradient_dtype", name_of(run.gradient_type())},
                 {"master_weights", masters_text(run)},
                 {"optimizer", run.optimizer},
                 {"optimizer_states", states_text(run.resident_shards)},
                 {"deterministic", run.deterministic},
                 {"gpu_memory_bytes", run.gpu_memory_bytes},
                 {"host_memory_bytes", run.host_memory_bytes}};
    if (run.attention_kernels != AttentionKernels::kAuto) {
        json["attention_kernels"] = name_of(run.attention_kernels);
    }
    if (run.gradient_pages.mode != Amount::Mode::kAll) {
        json["gradient_pages"] = to_text(run.gradient_pages);
    }
    if (run.attention == AttentionMode::kLocal) {
        json["local_window"] = run.local_window;
        json["sinks"] = run.sinks;
    }
    return json;
}

Json regions_to_json(const RegionTable& regions) {
    Json list = Json::array();
    for (std::size_t i = 0; i < kRegions; ++i) {
        const Region& region = regions[i];
        if (region.total_bytes() > 0) {
            list.push_back({{"name", name_of(static_cast<RegionName>(i))},
                            {"tier", name_of(region.tier)},
                            {"offset_bytes", region.offset_bytes},
                            {"slot_bytes", region.slot_bytes},
                            {"slots", region.slots}});
        }
    }
    return list;
}

Json pools_to_json(const std::vector<PoolPlan>& pools) {
    Json list = Json::array();
    for (const PoolPlan& pool : pools) {
        list.push_back({{"tier", name_of(pool.tier)},
                        {"page_class", name_of(pool.page_class)},
                        {"frames", pool.frames},
                        {"plane_bytes", pool.plane_bytes},
                        {"offset_bytes", pool.offset_bytes}});
    }
    return list;
}

}  // namespace

std::string to_json(const Plan& plan) {
    Json json;
    json["format"] = "oomb-plan";
    json["version"] = kPlanFormatVersion;
    json["model"] = model_to_json(plan.model);
    json["run"] = run_to_json(plan.asked);
    json["resident_pages"] = plan.resident_pages;
    json["keep"] = name_of(plan.run.keep);
    json["held_chunks"] = StepShape(plan.model, plan.run).held_chunks();
    json["kept_pages"] = {{"hbm", plan.kept_hbm}, {"host", plan.kept_host}};
    json["optimizer_shards"] = {{"hbm", plan.resident_shards}, {"host", plan.host_shards}};
    if (plan.run.attention_kernels != AttentionKernels::kAuto) {
        json["attention_kernels"] = name_of(plan.run.attention_kernels);
    }
    json["regions"] = regions_to_json(plan.regions);
    json["pools"] = pools_to_json(plan.pools);
    json["page_table_bytes"] = plan.page_table_bytes;
    json["driver_bytes"] = plan.driver_bytes();
    json["peak_bytes"] = {{"hbm", plan.peak_bytes(Tier::kHbm)}, {"host", plan.peak_bytes(Tier::kHost)}};
    return json.dump(2) + "\n";
}

}  // namespace oomb::schedule
