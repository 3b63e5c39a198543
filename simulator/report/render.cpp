#include "simulator/report/render.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/units.hpp"
#include "simulator/report/plan_lines.hpp"

namespace oomb::simulator {
namespace {

constexpr std::size_t kNameWidth = 26;

std::string_view family_name(ModelFamily family) {
    switch (family) {
        case ModelFamily::kLlama:
            return "Llama";
        case ModelFamily::kMistral:
            return "Mistral";
        case ModelFamily::kQwen2:
            return "Qwen2";
        case ModelFamily::kQwen3:
            return "Qwen3";
    }
    return "";
}

std::string render_rope(const Rope& rope) {
    const std::string base = fmt::format("RoPE theta {}", rope.theta);
    switch (rope.scaling) {
        case RopeScaling::kNone:
            return base;
        case RopeScaling::kLinear:
            return fmt::format("{}, linear scaling by {}", base, rope.factor);
        case RopeScaling::kLlama3:
            return fmt::format("{}, llama3 scaling by {} from {} positions", base, rope.factor,
                               format_count(rope.original_max_positions));
        case RopeScaling::kYarn:
            return fmt::format("{}, YaRN scaling by {} from {} positions", base, rope.factor,
                               format_count(rope.original_max_positions));
    }
    return base;
}

// Sliding windows of the model, empty where it has none.
std::string render_windows(const ModelShape& model) {
    if (model.sliding_windows.empty()) {
        return "";
    }
    const std::int64_t widest = std::ranges::max(model.sliding_windows);
    const std::int64_t full = std::ranges::count(model.sliding_windows, 0);
    return fmt::format(", sliding window {} in {} layers", format_count(widest), model.layers - full);
}

std::string render_model(const ModelShape& model, const std::string& name) {
    return fmt::format(
        "model  {}: {}, {} parameters\n"
        "       {} layers, hidden {}, {} query and {} K/V heads of {}, FFN {}, vocabulary {}\n"
        "       {} positions, {}{}\n",
        name, family_name(model.family), format_count(model.parameters()), model.layers, format_count(model.hidden),
        model.query_heads, model.kv_heads, model.head_dim, format_count(model.ffn), format_count(model.vocab),
        format_count(model.max_positions), render_rope(model.rope), render_windows(model));
}

// What was asked, and what the plan made of it where it was left to the plan.
std::string decided(std::string_view asked, std::string_view found) {
    return asked == "auto" ? fmt::format("auto ({})", found) : std::string(asked);
}

std::string states_of(const schedule::Plan& plan) {
    return decided(
        states_text(plan.asked.resident_shards),
        fmt::format("{} of {} shards in {}", format_count(plan.resident_shards),
                    format_count(plan.resident_shards + plan.host_shards), tier_title(plan.run.device, Tier::kHbm)));
}

std::string attention_of(const RunConfiguration& run) {
    std::string text(name_of(run.attention));
    if (run.attention == AttentionMode::kLocal) {
        text += fmt::format(" ({} tokens{})", format_count(run.local_window),
                            run.sinks > 0 ? fmt::format(" and {} sinks", format_count(run.sinks)) : std::string());
    }
    if (has_page_lists(run.attention)) {
        text += fmt::format(" ({} pages)", format_count(run.top_k));
    }
    text += " attention";
    if (run.attention_kernels != AttentionKernels::kAuto) {
        text += fmt::format(" by {} kernels", name_of(run.attention_kernels));
    }
    return text;
}

std::string optimizer_of(const RunConfiguration& run) {
    if (run.forward_only) {
        return "evaluation";
    }
    if (!run.optimizer) {
        return "no optimizer";
    }
    return run.compute == run.accumulator ? "AdamW" : fmt::format("AdamW, master weights {}", masters_text(run));
}

std::string kept_of(const schedule::Plan& plan) {
    const RunConfiguration& run = plan.asked;
    const std::int64_t held = schedule::StepShape(plan.model, plan.run).held_chunks();
    return fmt::format(", keep {}, kept-pages {}, held-chunks {}{}", decided(name_of(run.keep), name_of(plan.run.keep)),
                       decided(to_text(run.kept_pages), format_count(plan.kept_pages())),
                       decided(to_text(run.held_chunks), format_count(held)),
                       run.optimizer ? ",\n       optimizer-states " + states_of(plan) : "");
}

std::string render_run(const schedule::Plan& plan) {
    const RunConfiguration& run = plan.asked;
    const schedule::StepShape step(plan.model, plan.run);
    const std::string gradients =
        run.forward_only ? "" : fmt::format(", gradients in {}", name_of(run.gradient_type()));
    return fmt::format(
        "run    context {} tokens: {} chunks of {}, {} pages of {} per layer\n"
        "       history in windows of {} tokens, logits in tiles of {}\n"
        "       device {}, {} with sums in {}{}, {}, {}\n"
        "       offload {}, hbm-pages {}{}\n",
        format_tokens(run.context_tokens), format_count(step.chunks()), format_count(run.chunk_tokens),
        format_count(step.pages()), format_count(run.page_tokens), format_count(run.window_tokens),
        format_count(run.logit_tile_tokens), name_of(run.device), name_of(run.compute), name_of(run.accumulator),
        gradients, attention_of(run), optimizer_of(run), name_of(run.offload), to_text(run.hbm_pages),
        run.forward_only ? "" : kept_of(plan));
}

std::string render_row(std::string_view name, std::int64_t bytes, std::string_view text) {
    std::string row =
        fmt::format("  {:<{}}{:>12}{:>18}", name, kNameWidth, format_bytes_short(bytes), format_count(bytes));
    return text.empty() ? row + "\n" : fmt::format("{}  {}\n", row, text);
}

std::string render_tier(const schedule::Plan& plan, const std::vector<PlanLine>& lines, Tier tier) {
    const bool is_arena = plan.run.device == DeviceKind::kCpu && tier == Tier::kHbm;
    std::string text = fmt::format("\n{}{}\n", tier_title(plan.run.device, tier),
                                   is_arena ? " (in host memory, plays the GPU's part)" : "");
    text += fmt::format("  {:{}}{:>12}{:>18}\n", "", kNameWidth, "", "bytes");
    for (const PlanLine& line : lines) {
        if (line.tier == tier) {
            text += render_row(line.is_member ? "  of it " + line.name : line.name, line.bytes, line.explanation);
        }
    }
    const std::int64_t peak = plan.peak_bytes(tier);
    text += render_row("peak", peak, "sum of the lines above but \"of it\"");
    const std::int64_t budget = tier == Tier::kHbm ? plan.run.gpu_memory_bytes : plan.run.host_memory_bytes;
    if (budget > 0) {
        text += render_row("budget", budget, tier == Tier::kHbm ? "--gpu-memory" : "--host-memory");
        text += render_row(peak > budget ? "too little by" : "left", std::max(budget - peak, peak - budget), "");
    }
    return text;
}

std::string render_free(const schedule::Plan& plan, const Limits& limits) {
    const std::int64_t both = plan.peak_bytes(Tier::kHbm) + plan.peak_bytes(Tier::kHost);
    std::string text = "\nboth together\n" + render_row("peak", both, "the two tiers are the same memory here");
    text += render_row("free now", limits.free_bytes, "what the system lets this process take");
    return text + render_row(both > limits.free_bytes ? "too little by" : "left",
                             std::max(limits.free_bytes - both, both - limits.free_bytes), "");
}

std::string render_notes(const schedule::Plan& plan) {
    std::string text;
    for (const std::string& note : plan.model.notes) {
        text += fmt::format("note: {}\n", note);
    }
    if (plan.run.device == DeviceKind::kCuda) {
        text +=
            "note: not counted: the program itself in host memory; what other processes hold of the GPU (give "
            "--gpu-memory what they leave)\n";
    } else {
        text += "note: not counted: what LibTorch allocates inside an operation, the program itself\n";
    }
    return "\n" + text;
}

std::string verdict_of(const Alternative& alternative, bool is_nearest) {
    if (alternative.fits()) {
        return is_nearest ? "fits  <- nearest" : "fits";
    }
    std::string text;
    for (const Excess& excess : alternative.excesses) {
        text += fmt::format("{}{} {} short", text.empty() ? "" : ", ", excess.memory,
                            format_bytes_short(excess.short_bytes()));
    }
    return text;
}

}  // namespace

std::string render_plan(const schedule::Plan& plan, const std::string& model_name, const Limits& limits,
                        const std::string& time) {
    const std::vector<PlanLine> lines = lines_of(plan);
    std::string text = render_model(plan.model, model_name) + render_run(plan);
    text += render_tier(plan, lines, Tier::kHbm) + render_tier(plan, lines, Tier::kHost);
    if (limits.free_bytes > 0) {
        text += render_free(plan, limits);
    }
    return text + time + render_notes(plan);
}

std::string render_excesses(const std::vector<Excess>& excesses) {
    std::string text;
    for (const Excess& excess : excesses) {
        text +=
            fmt::format("{}: asked {}, available {}, short of {}\n", excess.memory, format_bytes(excess.asked_bytes),
                        format_bytes(excess.available_bytes), format_bytes(excess.short_bytes()));
    }
    return text;
}

std::string render_alternatives(const std::vector<Alternative>& alternatives, DeviceKind device) {
    std::size_t width = 6;
    for (const Alternative& alternative : alternatives) {
        width = std::max(width, alternative.change.size());
    }
    std::string text = fmt::format("  {:<{}}{:>14}{:>14}\n", "change", width, tier_title(device, Tier::kHbm),
                                   tier_title(device, Tier::kHost));
    bool found = false;
    for (const Alternative& alternative : alternatives) {
        text += fmt::format("  {:<{}}{:>14}{:>14}  {}\n", alternative.change, width,
                            format_bytes_short(alternative.peak_bytes[0]),
                            format_bytes_short(alternative.peak_bytes[1]), verdict_of(alternative, !found));
        found = found || alternative.fits();
    }
    return text;
}

}  // namespace oomb::simulator
