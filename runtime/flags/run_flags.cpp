#include "runtime/flags/run_flags.hpp"

#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/memory_info.hpp"
#include "runtime/core/nearest.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/contradictions.hpp"

namespace oomb {
namespace {

// Smaller budgets hold no model at all: a unit was forgotten.
constexpr std::int64_t kLeastBudget_bytes = kMiB;

template <class T>
T choose(std::string_view flag, const std::string& found,
         std::initializer_list<std::pair<std::string_view, T>> allowed) {
    std::vector<std::string> names;
    for (const auto& [name, value] : allowed) {
        if (name == found) {
            return value;
        }
        names.emplace_back(name);
    }
    fail<UsageError>("{}: found \"{}\", allowed is {}{}", flag, found, fmt::join(names, ", "),
                     did_you_mean(found, names));
}

// `allowed` ends the sentence "allowed is auto, ring or ...".
std::int64_t parse_count(std::string_view flag, const std::string& text, std::string_view allowed) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || end != text.data() + text.size() || count < 0) {
        fail<UsageError>("{}: found \"{}\", allowed is {} from 0", flag, text, allowed);
    }
    return count;
}

HbmPages parse_hbm_pages(const std::string& text) {
    if (text == "auto") {
        return {HbmPages::Mode::kAuto, 0};
    }
    if (text == "ring") {
        return {HbmPages::Mode::kRing, 0};
    }
    return {HbmPages::Mode::kCount, parse_count("--hbm-pages", text, "auto, ring or a whole number of pages")};
}

// 0: not given.
std::int64_t parse_top_k(const std::string& text) {
    const std::int64_t pages = text.empty() ? 0 : parse_count("--top-k", text, "a whole number of pages");
    if (pages == 0 && !text.empty()) {
        fail<UsageError>("--top-k: found 0, allowed is a whole number of pages from 1");
    }
    return pages;
}

Amount parse_amount(std::string_view flag, const std::string& text, std::string_view unit) {
    if (text == "auto") {
        return {Amount::Mode::kAuto, 0};
    }
    if (text == "all") {
        return {Amount::Mode::kAll, 0};
    }
    return {Amount::Mode::kCount, parse_count(flag, text, fmt::format("auto, all or a whole number of {}", unit))};
}

std::int64_t parse_budget(std::string_view flag, const std::string& text, const char* fallback) {
    if (text.empty() && fallback == nullptr) {
        return 0;
    }
    const std::int64_t bytes = parse_bytes(flag, text.empty() ? fallback : text);
    if (bytes < kLeastBudget_bytes) {
        fail<UsageError>("{}: found \"{}\", which is {}; at least {} is expected: give the unit, such as {}GiB", flag,
                         text, format_bytes(bytes), format_bytes_short(kLeastBudget_bytes), bytes);
    }
    return bytes;
}

// `--keep all` is the short word for all chunks held and no pages kept.
void read_kept(const RunFlags& flags, RunConfiguration& run) {
    const bool all = flags.keep == "all";
    run.keep = choose<Keep>("--keep", flags.keep,
                            {{"none", Keep::kNone},
                             {"x", Keep::kInput},
                             {"o", Keep::kOutput},
                             {"xo", Keep::kInputAndOutput},
                             {"all", Keep::kNone},
                             {"auto", Keep::kAuto}});
    run.kept_pages = parse_amount("--kept-pages", flags.kept_pages, "pages");
    const std::string held = flags.held_chunks.empty() ? (all ? "all" : "0") : flags.held_chunks;
    run.held_chunks = parse_amount("--held-chunks", held, "chunks");
    if (all && run.held_chunks.mode != Amount::Mode::kAll) {
        fail<UsageError>(
            "--keep all with --held-chunks {}: all keeps the activations of every chunk; leave --held-chunks out, or "
            "take --keep none --held-chunks {}",
            held, held);
    }
    if (all && run.kept_pages.mode != Amount::Mode::kAll) {
        fail<UsageError>(
            "--keep all with --kept-pages {}: all keeps every activation in GPU memory and nothing in pages; leave "
            "--kept-pages out, or take --keep x, o or xo, whose pages may also lie on the host",
            flags.kept_pages);
    }
}

bool wants_bf16_gradients(const std::string& text, DType accumulator) {
    if (text.empty()) {
        return false;
    }
    const bool bf16 = choose<bool>("--gradient-dtype", text, {{"fp32", false}, {"bf16", true}});
    if (accumulator == DType::kF64) {
        fail<UsageError>("--gradient-dtype {} with --dtype fp64: in the oracle mode gradients are fp64; leave it out",
                         text);
    }
    return bf16;
}

}  // namespace

std::string quoted_for_shell(const std::string& value) {
    if (value.find_first_of(" \t\n'\"\\$`*?[]{}&;|<>()#~!") == std::string::npos) {
        return value;
    }
    std::string text = "'";
    for (const char c : value) {
        text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return text + "'";
}

std::string as_typed(const RunFlags& flags) {
    static const std::pair<const char*, std::string RunFlags::*> kFlags[] = {
        {"--model", &RunFlags::model},
        {"--device", &RunFlags::device},
        {"--context", &RunFlags::context},
        {"--chunk", &RunFlags::chunk},
        {"--page-tokens", &RunFlags::page_tokens},
        {"--window", &RunFlags::window},
        {"--logit-tile", &RunFlags::logit_tile},
        {"--attention", &RunFlags::attention},
        {"--top-k", &RunFlags::top_k},
        {"--local-window", &RunFlags::local_window},
        {"--sinks", &RunFlags::sinks},
        {"--attention-kernels", &RunFlags::attention_kernels},
        {"--dtype", &RunFlags::dtype},
        {"--gradient-dtype", &RunFlags::gradient_dtype},
        {"--master-weights", &RunFlags::master_weights},
        {"--offload", &RunFlags::offload},
        {"--hbm-pages", &RunFlags::hbm_pages},
        {"--gradient-pages", &RunFlags::gradient_pages},
        {"--keep", &RunFlags::keep},
        {"--kept-pages", &RunFlags::kept_pages},
        {"--held-chunks", &RunFlags::held_chunks},
        {"--optimizer-states", &RunFlags::optimizer_states},
        {"--gpu-memory", &RunFlags::gpu_memory},
        {"--host-memory", &RunFlags::host_memory}};
    const RunFlags defaults;
    std::string text;
    for (const auto& [name, member] : kFlags) {
        const std::string& value = flags.*member;
        if (value != defaults.*member) {
            text += fmt::format("{}{} {}", text.empty() ? "" : " ", name, quoted_for_shell(value));
        }
    }
    return text + (flags.deterministic ? " --deterministic" : "") + (flags.no_optimizer ? " --no-optimizer" : "");
}

void set_flags(RunFlags& flags, const RunConfiguration& run) {
    flags.chunk = tokens_as_typed(run.chunk_tokens);
    flags.window = tokens_as_typed(run.window_tokens);
    flags.logit_tile = tokens_as_typed(run.logit_tile_tokens);
    flags.offload = name_of(run.offload);
    flags.hbm_pages = to_text(run.hbm_pages);
    flags.gradient_pages = to_text(run.gradient_pages);
    flags.keep = name_of(run.keep);
    flags.kept_pages = run.keep == Keep::kNone ? "all" : to_text(run.kept_pages);
    const bool holds = run.held_chunks.mode != Amount::Mode::kCount || run.held_chunks.count > 0;
    flags.held_chunks = holds ? to_text(run.held_chunks) : "";
    if (run.bf16_gradients != (flags.gradient_dtype == "bf16")) {
        flags.gradient_dtype = run.bf16_gradients ? "bf16" : "";
    }
    flags.master_weights = run.split_masters ? "remainder" : "fp32";
    flags.optimizer_states = states_text(run.resident_shards);
}

RunConfiguration to_run_configuration(const RunFlags& flags) {
    refuse_contradictions(flags);
    RunConfiguration run;
    run.device = choose<DeviceKind>("--device", flags.device, {{"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}});
    const bool cuda = run.device == DeviceKind::kCuda;
    run.context_tokens = parse_tokens("--context", flags.context);
    run.chunk_tokens = parse_tokens("--chunk", flags.chunk);
    run.page_tokens = parse_tokens("--page-tokens", flags.page_tokens);
    run.window_tokens = parse_tokens("--window", flags.window);
    run.logit_tile_tokens = parse_tokens("--logit-tile", flags.logit_tile);
    run.attention = choose<AttentionMode>("--attention", flags.attention,
                                          {{"dense", AttentionMode::kDense},
                                           {"topk", AttentionMode::kTopK},
                                           {"random", AttentionMode::kRandom},
                                           {"local", AttentionMode::kLocal}});
    run.top_k = parse_top_k(flags.top_k);
    run.local_window = flags.local_window.empty() ? 0 : parse_tokens("--local-window", flags.local_window);
    run.sinks = flags.sinks.empty() ? 0 : parse_tokens("--sinks", flags.sinks);
    run.attention_kernels = choose<AttentionKernels>(
        "--attention-kernels", flags.attention_kernels,
        {{"auto", AttentionKernels::kAuto}, {"cudnn", AttentionKernels::kCudnn}, {"own", AttentionKernels::kOwn}});
    run.offload = choose<Offload>("--offload", flags.offload, {{"none", Offload::kNone}, {"host", Offload::kHost}});
    read_kept(flags, run);
    run.hbm_pages = parse_hbm_pages(flags.hbm_pages);
    run.gradient_pages = parse_amount("--gradient-pages", flags.gradient_pages, "pages");
    run.compute = choose<DType>("--dtype", flags.dtype.empty() ? (cuda ? "bf16" : "fp32") : flags.dtype,
                                {{"bf16", DType::kBF16}, {"fp32", DType::kF32}, {"fp64", DType::kF64}});
    run.accumulator = run.compute == DType::kF64 ? DType::kF64 : DType::kF32;
    run.bf16_gradients = wants_bf16_gradients(flags.gradient_dtype, run.accumulator);
    run.split_masters = choose<bool>("--master-weights", flags.master_weights, {{"fp32", false}, {"remainder", true}});
    run.optimizer = !flags.no_optimizer;
    run.deterministic = flags.deterministic;
    run.resident_shards = choose<Amount>(
        "--optimizer-states", flags.optimizer_states,
        {{"hbm", {Amount::Mode::kAll, 0}}, {"host", {Amount::Mode::kCount, 0}}, {"auto", {Amount::Mode::kAuto, 0}}});
    run.gpu_memory_bytes = parse_budget("--gpu-memory", flags.gpu_memory, cuda ? kDefaultGpuMemory : nullptr);
    run.host_memory_bytes = parse_budget("--host-memory", flags.host_memory, cuda ? kDefaultHostMemory : nullptr);
    validate(run);
    return run;
}

std::optional<std::int64_t> free_memory_limit_bytes(const RunFlags& flags) {
    const bool budgets_given = !flags.gpu_memory.empty() && !flags.host_memory.empty();
    if (flags.device != "cpu" || budgets_given) {
        return std::nullopt;
    }
    return host_memory().available_bytes;
}

HardwareProfile read_gpu_profile(const std::string& name_or_path, DeviceKind device) {
    if (device != DeviceKind::kCuda) {
        fail<UsageError>("--hardware: found \"{}\" with --device cpu, but it describes a GPU; leave it out",
                         name_or_path);
    }
    if (const HardwareProfile* known = known_hardware(name_or_path)) {
        return *known;
    }
    std::error_code error;  // a name too long for a file is none either
    if (!std::filesystem::exists(name_or_path, error)) {
        fail<UsageError>("--hardware: found \"{}\", which is no file and no machine that is known; known are {}{}",
                         name_or_path, fmt::join(known_hardware_names(), ", "),
                         did_you_mean(name_or_path, known_hardware_names()));
    }
    return read_hardware_profile(name_or_path);
}

void take_budgets_of(const std::string& hardware, RunFlags& flags) {
    if (hardware.empty() || flags.device != "cuda") {
        return;
    }
    const HardwareProfile profile = read_gpu_profile(hardware, DeviceKind::kCuda);
    const auto take = [&](std::string& budget, const SourcedBytes& memory, std::string_view key,
                          std::string_view flag) {
        if (!budget.empty()) {
            return;
        }
        if (memory.bytes < kLeastBudget_bytes) {
            fail<UsageError>("--hardware {}: {} is {}, a budget is at least {}; mend the profile, or give {}", hardware,
                             key, format_bytes(memory.bytes), format_bytes_short(kLeastBudget_bytes), flag);
        }
        budget = memory.bytes < kGiB ? std::to_string(memory.bytes) : fmt::format("{}GiB", memory.bytes / kGiB);
    };
    take(flags.gpu_memory, profile.gpu_memory, "gpu_memory", "--gpu-memory");
    take(flags.host_memory, profile.host_memory, "host_memory", "--host-memory");
}

std::optional<std::string> position_warning(const RunConfiguration& run, const ModelShape& model) {
    if (run.context_tokens <= model.max_positions) {
        return std::nullopt;
    }
    return fmt::format("--context: {} tokens are more than the {} positions of the model (max_position_embeddings)",
                       format_tokens(run.context_tokens), format_tokens(model.max_positions));
}

}  // namespace oomb
