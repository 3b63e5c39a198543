#include "runtime/core/run_configuration.hpp"

#include <utility>

#include "runtime/core/attention_kernels.hpp"
#include "runtime/core/error.hpp"

namespace oomb {
namespace {

void check_tokens(std::string_view flag, std::int64_t found) {
    if (found < 1 || found > kMostTokens) {
        fail<UsageError>("{}: found {}, allowed is 1 to {} tokens", flag, found, kMostTokens);
    }
}

void check_multiple(std::string_view flag, std::int64_t found, std::int64_t page_tokens) {
    check_tokens(flag, found);
    if (found % page_tokens != 0) {
        const std::int64_t below = found / page_tokens * page_tokens;
        fail<UsageError>("{}: {} tokens is not a multiple of the page ({} tokens); nearest: {}{}", flag, found,
                         page_tokens, below > 0 ? fmt::format("{} or ", below) : std::string(), below + page_tokens);
    }
}

void check_held(const RunConfiguration& run) {
    if (run.held_chunks.count < 0) {
        fail<UsageError>("--held-chunks: found {}, allowed is auto, all or a number of chunks from 0",
                         run.held_chunks.count);
    }
    const bool holds = run.held_chunks.mode == Amount::Mode::kAll || run.held_chunks.count > 0;
    if (holds && keeps_input(run.keep)) {
        fail<UsageError>(
            "--keep {} with --held-chunks {}: kept layer inputs save the second forward, but held activations come "
            "from it, so it runs anyway; take --held-chunks 0, or --keep o, or --keep none",
            name_of(run.keep), to_text(run.held_chunks));
    }
}

void check_top_k(const RunConfiguration& run) {
    if (!has_page_lists(run.attention)) {
        if (run.top_k != 0) {
            fail<UsageError>(
                "--top-k: found {} with --attention {}, which selects no pages; leave it out, or take "
                "--attention topk",
                run.top_k, name_of(run.attention));
        }
        return;
    }
    if (run.top_k < 1) {
        fail<UsageError>(
            "--attention {} needs --top-k, the pages of the history that a page of queries attends to: "
            "found {}, allowed is a number of pages from 1",
            name_of(run.attention), run.top_k);
    }
    const std::int64_t window = run.window_tokens / run.page_tokens;
    if (run.top_k > window) {
        const bool a_window_could = run.top_k <= kMostTokens / run.page_tokens;
        fail<UsageError>(
            "--top-k {} with --window {}: a window holds {} pages of {} tokens, and the pages of a list are "
            "read together; take --top-k {} or less{}",
            run.top_k, run.window_tokens, window, run.page_tokens, window,
            a_window_could ? fmt::format(", or --window {} or more", run.top_k * run.page_tokens) : std::string());
    }
}

void check_gradient_pages(const RunConfiguration& run) {
    if (run.gradient_pages.mode == Amount::Mode::kAll) {
        return;
    }
    const std::string found = to_text(run.gradient_pages);
    if (run.gradient_pages.mode == Amount::Mode::kAuto || run.gradient_pages.count < 1) {
        fail<UsageError>("--gradient-pages: found {}, allowed is all or a number of pages from 1", found);
    }
    if (!has_page_lists(run.attention)) {
        fail<UsageError>(
            "--gradient-pages {} with --attention {}: every gradient page that can be there will be; leave it out, or "
            "take --attention topk",
            found, name_of(run.attention));
    }
}

void check_local(const RunConfiguration& run) {
    if (run.attention != AttentionMode::kLocal) {
        for (const auto& [flag, found] : {std::pair{"--local-window", run.local_window}, {"--sinks", run.sinks}}) {
            if (found != 0) {
                fail<UsageError>(
                    "{}: found {} with --attention {}, which has none; leave it out, or take --attention local", flag,
                    found, name_of(run.attention));
            }
        }
        return;
    }
    if (run.local_window < 1 || run.local_window > kMostTokens) {
        fail<UsageError>(
            "--attention local needs --local-window, the tokens that a token attends to, itself included: found {}, "
            "allowed is 1 to {} tokens",
            run.local_window, kMostTokens);
    }
    if (run.sinks != 0) {
        check_multiple("--sinks", run.sinks, run.page_tokens);
    }
}

void check_types(const RunConfiguration& run) {
    const bool oracle = run.accumulator == DType::kF64;
    if ((run.compute == DType::kF64) != oracle) {
        fail<UsageError>("--dtype {}: float64 is the oracle mode and holds for activations and accumulators together",
                         name_of(run.compute));
    }
    if (run.compute == DType::kF16) {
        fail<UsageError>("--dtype fp16: allowed is fp32, fp64 or bf16 (fp16 would need loss scaling)");
    }
    if (run.bf16_gradients && run.compute != DType::kBF16) {
        fail<UsageError>(
            "--gradient-dtype bf16 with --dtype {}: gradients can't be narrower than the weights; take --dtype bf16, "
            "or "
            "leave --gradient-dtype out",
            name_of(run.compute));
    }
    if (run.split_masters && run.compute != DType::kBF16) {
        fail<UsageError>(
            "--master-weights remainder with --dtype {}: only bf16 weights have master weights beside them; take "
            "--dtype "
            "bf16, or leave --master-weights out",
            name_of(run.compute));
    }
}

// No flag leads here but those of the program that evaluates, which has none of the others.
void check_evaluation(const RunConfiguration& run) {
    if (!run.forward_only) {
        require(run.recall_budgets.empty(), "recall is measured by an evaluation alone");
        return;
    }
    require(run.keep == Keep::kNone && run.held_chunks.mode == Amount::Mode::kCount && run.held_chunks.count == 0 &&
                !run.optimizer && !run.bf16_gradients && !run.split_masters,
            "an evaluation keeps, holds and updates nothing");
    require(run.recall_budgets.empty() || run.attention == AttentionMode::kDense,
            "recall is the share of dense attention");
    std::int64_t before = 0;
    for (const std::int64_t budget : run.recall_budgets) {
        require(budget > before, "recall: budgets ascend from 1, found {} after {}", budget, before);
        before = budget;
    }
}

}  // namespace

void validate(const RunConfiguration& run) {
    check_tokens("--context", run.context_tokens);
    check_tokens("--page-tokens", run.page_tokens);
    check_multiple("--chunk", run.chunk_tokens, run.page_tokens);
    check_multiple("--window", run.window_tokens, run.page_tokens);
    check_tokens("--logit-tile", run.logit_tile_tokens);
    check_top_k(run);
    check_gradient_pages(run);
    check_local(run);
    if (run.hbm_pages.count < 0) {
        fail<UsageError>("--hbm-pages: found {}, allowed is ring, auto or a number of pages from 0",
                         run.hbm_pages.count);
    }
    if (run.offload == Offload::kNone && run.hbm_pages.mode != HbmPages::Mode::kAuto) {
        fail<UsageError>(
            "--hbm-pages limits what stays in HBM and needs --offload host; without offload every page stays");
    }
    check_held(run);
    if (run.kept_pages.count < 0) {
        fail<UsageError>("--kept-pages: found {}, allowed is auto, all or a number of pages from 0",
                         run.kept_pages.count);
    }
    check_types(run);
    check_attention_kernels(run);
    check_evaluation(run);
    if (run.shard_parameters < 1 || run.resident_shards.count < 0) {
        fail<UsageError>("--optimizer-states: found {} shards of {} parameters in HBM", run.resident_shards.count,
                         run.shard_parameters);
    }
    if (run.gpu_memory_bytes < 0 || run.host_memory_bytes < 0) {
        fail<UsageError>("--gpu-memory and --host-memory: a budget can't be negative");
    }
}

std::string to_text(const HbmPages& pages) {
    switch (pages.mode) {
        case HbmPages::Mode::kAuto:
            return "auto";
        case HbmPages::Mode::kRing:
            return "ring";
        case HbmPages::Mode::kCount:
            return std::to_string(pages.count);
    }
    return "";
}

std::string to_text(const Amount& amount) {
    switch (amount.mode) {
        case Amount::Mode::kAuto:
            return "auto";
        case Amount::Mode::kAll:
            return "all";
        case Amount::Mode::kCount:
            return std::to_string(amount.count);
    }
    return "";
}

std::string states_text(const Amount& resident_shards) {
    if (resident_shards.mode == Amount::Mode::kCount) {
        return resident_shards.count == 0 ? "host" : std::to_string(resident_shards.count);
    }
    return resident_shards.mode == Amount::Mode::kAll ? "hbm" : "auto";
}

std::string_view masters_text(const RunConfiguration& run) {
    if (run.compute == run.accumulator) {
        return "none";
    }
    return run.split_masters ? "remainder" : "fp32";
}

std::int64_t Amount::of(std::int64_t all) const {
    require(mode != Mode::kAuto, "an amount is asked for that the plan has not decided");
    return mode == Mode::kAll || count > all ? all : count;
}

std::string_view name_of(DeviceKind device) {
    return device == DeviceKind::kCpu ? "cpu" : "cuda";
}
std::string_view name_of(AttentionMode attention) {
    switch (attention) {
        case AttentionMode::kDense:
            return "dense";
        case AttentionMode::kTopK:
            return "topk";
        case AttentionMode::kLocal:
            return "local";
        case AttentionMode::kRandom:
            return "random";
    }
    return "";
}
std::string_view name_of(AttentionKernels kernels) {
    switch (kernels) {
        case AttentionKernels::kAuto:
            return "auto";
        case AttentionKernels::kCudnn:
            return "cudnn";
        case AttentionKernels::kOwn:
            return "own";
    }
    return "";
}
std::string_view name_of(Offload offload) {
    return offload == Offload::kNone ? "none" : "host";
}
std::string_view name_of(Keep keep) {
    switch (keep) {
        case Keep::kNone:
            return "none";
        case Keep::kInput:
            return "x";
        case Keep::kOutput:
            return "o";
        case Keep::kInputAndOutput:
            return "xo";
        case Keep::kAuto:
            return "auto";
    }
    return "";
}

}  // namespace oomb
