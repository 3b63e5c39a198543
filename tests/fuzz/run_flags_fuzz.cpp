// The flags that a run is described by, one value a line in the order below, and the plan of what is accepted.
#include <sstream>

#include "runtime/flags/run_flags.hpp"
#include "runtime/schedule/plan.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::istringstream lines(oomb::fuzz::text_of(data, size));
    oomb::RunFlags flags;
    flags.model = "none";
    for (std::string* value : {&flags.context,    &flags.chunk,          &flags.page_tokens,    &flags.window,
                               &flags.logit_tile, &flags.attention,      &flags.offload,        &flags.keep,
                               &flags.kept_pages, &flags.held_chunks,    &flags.hbm_pages,      &flags.optimizer_states,
                               &flags.gpu_memory, &flags.host_memory,    &flags.device,         &flags.dtype,
                               &flags.top_k,      &flags.gradient_dtype, &flags.master_weights, &flags.local_window,
                               &flags.sinks}) {
        std::getline(lines, *value);
    }
    return oomb::fuzz::refuses_or_accepts([&] {
        static const oomb::ModelShape kModel = oomb::parse_model_shape(
            R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":256,"num_hidden_layers":4,)"
            R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"intermediate_size":512,"vocab_size":1000,)"
            R"("max_position_embeddings":4096,"rms_norm_eps":1e-5,"rope_theta":10000.0,"hidden_act":"silu"})",
            "config.json");
        const oomb::RunConfiguration run = oomb::to_run_configuration(flags);
        oomb::schedule::make_plan(kModel, run);
    });
}
