#include "simulator/cli/calibration_steps.hpp"

#include <nlohmann/json.hpp>

namespace oomb::simulator {
namespace {

// Head sizes 64 and 128; wide is the shape of a 7B model, narrow of a 135M one.
const CalibrationModel kNarrow = {"narrow", 30, 576, 1536, 9, 3, 49152, true};
const CalibrationModel kWide = {"wide", 6, 3584, 18944, 28, 4, 152064, false};
const CalibrationModel kLow = {"wide-of-2", 2, 3584, 18944, 28, 4, 152064, false};
const CalibrationModel kTiny = {"tiny", 2, 128, 256, 2, 1, 512, false};
const CalibrationModel kTinyWide = {"tiny-wide", 2, 256, 512, 2, 1, 512, false};

constexpr const char* kLean = " --no-optimizer --offload host --hbm-pages ring";
constexpr const char* kOwn = " --no-optimizer --offload host --hbm-pages ring --attention-kernels own";
constexpr const char* kHosted = " --no-optimizer --offload host --hbm-pages ring --keep xo";

}  // namespace

std::string config_json(const CalibrationModel& model) {
    const nlohmann::ordered_json json = {{"architectures", {"LlamaForCausalLM"}},
                                         {"model_type", "llama"},
                                         {"hidden_act", "silu"},
                                         {"attention_bias", false},
                                         {"mlp_bias", false},
                                         {"hidden_size", model.hidden},
                                         {"intermediate_size", model.ffn},
                                         {"num_hidden_layers", model.layers},
                                         {"num_attention_heads", model.query_heads},
                                         {"num_key_value_heads", model.kv_heads},
                                         {"max_position_embeddings", 1 << 20},
                                         {"rms_norm_eps", 1e-5},
                                         {"rope_theta", 1e6},
                                         {"tie_word_embeddings", model.tied},
                                         {"torch_dtype", "bfloat16"},
                                         {"vocab_size", model.vocab}};
    return json.dump(2) + "\n";
}

std::vector<CalibrationStep> calibration_steps(DeviceKind device) {
    if (device == DeviceKind::kCpu) {
        return {{kTiny, "lean", 3, std::string("--context 1K --chunk 256 --window 256") + kLean},
                {kTiny, "kept, longer chunks", 3, std::string("--context 1K --chunk 512 --window 512") + kHosted},
                {kTinyWide, "head size 128", 3, std::string("--context 1K --chunk 256 --window 512") + kLean},
                {kTiny, "optimizer", 3, "--context 512 --chunk 256 --offload host --optimizer-states host"}};
    }
    return {
        {kNarrow, "chunks of 8K", 3, std::string("--context 64K --chunk 8K --window 32K") + kLean},
        {kNarrow, "chunks of 4K, kept", 3, std::string("--context 32K --chunk 4K --window 16K") + kHosted},
        {kNarrow, "deterministic", 3, std::string("--context 16K --chunk 4K --window 8K --deterministic") + kLean},
        {kNarrow, "short operations, not traced", 4, std::string("--context 16K --chunk 1K --window 4K") + kLean,
         false},
        {kWide, "chunks of 8K", 4, std::string("--context 32K --chunk 8K --window 32K") + kLean},
        {kLow, "optimizer, states on the host", 3, "--context 16K --chunk 8K --offload host --optimizer-states host"},
        {kWide, "chunks of 2K", 3, std::string("--context 16K --chunk 2K --window 16K") + kLean},
        {kWide, "long history, kept", 2,
         std::string("--context 128K --chunk 8K --window 64K --logit-tile 4K") + kHosted},
        {kWide, "deterministic", 3, std::string("--context 16K --chunk 4K --window 8K --deterministic") + kLean},
        {kNarrow, "own kernels", 3, std::string("--context 64K --chunk 8K --window 32K") + kOwn},
        {kNarrow, "own kernels, chunks of 2K", 3, std::string("--context 16K --chunk 2K --window 8K") + kOwn},
        {kNarrow, "own kernels, deterministic", 3,
         std::string("--context 16K --chunk 4K --window 8K --deterministic") + kOwn},
        {kWide, "own kernels", 3, std::string("--context 64K --chunk 8K --window 32K") + kOwn},
        {kWide, "own kernels, chunks of 2K", 3, std::string("--context 16K --chunk 2K --window 16K") + kOwn},
        {kWide, "own kernels, deterministic", 3,
         std::string("--context 16K --chunk 4K --window 8K --deterministic") + kOwn},
    };
}

}  // namespace oomb::simulator
