#include "runtime/flags/run_flags.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb {

namespace {

RunFlags flags_with_context(const std::string& context) {
    RunFlags flags;
    flags.context = context;
    return flags;
}

RunFlags parsed(std::vector<std::string> arguments) {
    RunFlags flags;
    CLI::App app("", "program");
    add_run_flags(app, flags);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(arguments);
    return flags;
}

}  // namespace

TEST_CASE("defaults on the CPU: fp32, no budgets of their own") {
    const RunConfiguration run = to_run_configuration(flags_with_context("128K"));
    CHECK(run.device == DeviceKind::kCpu);
    CHECK(run.context_tokens == 131072);
    CHECK(run.chunk_tokens == 4096);
    CHECK(run.page_tokens == 128);
    CHECK(run.window_tokens == 16384);
    CHECK(run.logit_tile_tokens == 1024);
    CHECK(run.compute == DType::kF32);
    CHECK(run.accumulator == DType::kF32);
    CHECK(run.offload == Offload::kNone);
    CHECK(run.keep == Keep::kNone);
    CHECK(run.held_chunks.of(9) == 0);
    CHECK(run.kept_pages.of(9) == 9);
    CHECK(run.hbm_pages.mode == HbmPages::Mode::kAuto);
    CHECK(run.optimizer);
    CHECK(run.resident_shards.mode == Amount::Mode::kAuto);
    CHECK(run.gpu_memory_bytes == 0);
    CHECK(run.host_memory_bytes == 0);
}

TEST_CASE("defaults on CUDA: bf16 with sums in fp32, the budgets of an H200") {
    RunFlags flags = flags_with_context("1M");
    flags.device = "cuda";
    const RunConfiguration run = to_run_configuration(flags);
    CHECK(run.compute == DType::kBF16);
    CHECK(run.accumulator == DType::kF32);
    CHECK(run.gpu_memory_bytes == 139 * kGiB);
    CHECK(run.host_memory_bytes == 125 * kGiB);
}

TEST_CASE("every flag reaches its field") {
    const RunConfiguration run = to_run_configuration(
        parsed({"--model",  "m",   "--context",    "3000", "--chunk",       "192",   "--page-tokens", "64",
                "--window", "640", "--logit-tile", "33",   "--attention",   "dense", "--offload",     "host",
                "--keep",   "xo",  "--hbm-pages",  "77",   "--gpu-memory",  "3GB",   "--host-memory", "5MiB",
                "--device", "cpu", "--dtype",      "fp64", "--no-optimizer"}));
    CHECK(run.context_tokens == 3000);
    CHECK(run.chunk_tokens == 192);
    CHECK(run.page_tokens == 64);
    CHECK(run.window_tokens == 640);
    CHECK(run.logit_tile_tokens == 33);
    CHECK(run.offload == Offload::kHost);
    CHECK(run.keep == Keep::kInputAndOutput);
    CHECK(run.hbm_pages.mode == HbmPages::Mode::kCount);
    CHECK(run.hbm_pages.count == 77);
    CHECK(run.gpu_memory_bytes == 3'000'000'000);
    CHECK(run.host_memory_bytes == 5 * kMiB);
    CHECK(run.compute == DType::kF64);
    CHECK(run.accumulator == DType::kF64);
    CHECK_FALSE(run.optimizer);
}

TEST_CASE("held chunks: a number or all, and not beside kept inputs") {
    RunFlags flags = flags_with_context("1M");
    flags.held_chunks = "2";
    CHECK(to_run_configuration(flags).held_chunks.of(9) == 2);
    CHECK(to_run_configuration(flags).held_chunks.of(1) == 1);
    flags.held_chunks = "all";
    CHECK(to_run_configuration(flags).held_chunks.of(9) == 9);
    flags.keep = "xo";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("take --held-chunks 0, or --keep o, or --keep none"), UsageError);
    flags.keep = "x";
    CHECK_THROWS_AS(to_run_configuration(flags), UsageError);
    flags.held_chunks = "auto";
    CHECK(to_run_configuration(flags).held_chunks.mode == Amount::Mode::kAuto);
    flags.held_chunks = "2";
    flags.keep = "auto";
    CHECK(to_run_configuration(flags).keep == Keep::kAuto);
    flags.keep = "o";
    CHECK(to_run_configuration(flags).keep == Keep::kOutput);
    for (const std::string text : {"-1", "two", "1.5", " "}) {
        flags.held_chunks = text;
        CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                             doctest::Contains("allowed is auto, all or a whole number of chunks from 0"), UsageError);
    }
}

TEST_CASE("keep all: all chunks held, and no number that says otherwise") {
    RunFlags flags = flags_with_context("1M");
    flags.keep = "all";
    for (const std::string held : {"", "all"}) {
        flags.held_chunks = held;
        const RunConfiguration run = to_run_configuration(flags);
        CHECK(run.keep == Keep::kNone);
        CHECK(run.held_chunks.mode == Amount::Mode::kAll);
    }
    for (const std::string held : {"0", "3", "auto"}) {
        flags.held_chunks = held;
        CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                             doctest::Contains(("--keep all with --held-chunks " + held).c_str()), UsageError);
    }
    flags.held_chunks = "";
    for (const std::string kept : {"0", "7", "auto"}) {
        flags.kept_pages = kept;
        CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                             doctest::Contains(("--keep all with --kept-pages " + kept).c_str()), UsageError);
    }
    flags.kept_pages = "all";
    flags.keep = "everything";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--keep: found \"everything\", allowed is none, x, o, xo, all, auto"),
                         UsageError);
}

TEST_CASE("kept pages: auto, all or a number") {
    RunFlags flags = flags_with_context("1M");
    flags.keep = "o";
    flags.kept_pages = "auto";
    CHECK(to_run_configuration(flags).kept_pages.mode == Amount::Mode::kAuto);
    CHECK_THROWS_AS(to_run_configuration(flags).kept_pages.of(9), InternalError);
    flags.kept_pages = "3";
    CHECK(to_run_configuration(flags).kept_pages.of(9) == 3);
    flags.kept_pages = "ring";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--kept-pages: found \"ring\", allowed is auto, all or a whole number"),
                         UsageError);
}

TEST_CASE("optimizer states: hbm, host or auto") {
    RunFlags flags = flags_with_context("1M");
    flags.optimizer_states = "hbm";
    CHECK(to_run_configuration(flags).resident_shards.of(9) == 9);
    flags.optimizer_states = "host";
    CHECK(to_run_configuration(flags).resident_shards.of(9) == 0);
    for (const std::string text : {"hbm", "host", "auto"}) {
        flags.optimizer_states = text;
        CHECK(states_text(to_run_configuration(flags).resident_shards) == text);
    }
    flags.optimizer_states = "disk";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--optimizer-states: found \"disk\", allowed is hbm, host, auto"),
                         UsageError);
}

TEST_CASE("gradient pages on the host: all or a number from 1, with lists and offload alone") {
    RunFlags flags = flags_with_context("1M");
    flags.gradient_pages = "5";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--gradient-pages 5 with --offload none"),
                         UsageError);
    flags.offload = "host";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--gradient-pages 5 with --attention dense"),
                         UsageError);
    flags.attention = "topk";
    flags.top_k = "2";
    CHECK(to_run_configuration(flags).gradient_pages.count == 5);
    for (const char* wrong : {"0", "auto", "-1", "some"}) {
        flags.gradient_pages = wrong;
        CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--gradient-pages: found"), UsageError);
    }
}

TEST_CASE("top-K pages: a number from 1 that a window holds, with topk and with nothing else") {
    RunFlags flags = flags_with_context("1M");
    CHECK(to_run_configuration(flags).top_k == 0);
    flags.attention = "topk";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--attention topk needs --top-k"), UsageError);
    flags.top_k = "64";
    CHECK(to_run_configuration(flags).attention == AttentionMode::kTopK);
    CHECK(to_run_configuration(flags).top_k == 64);
    flags.top_k = "128";  // pages of the default window
    CHECK(to_run_configuration(flags).top_k == 128);
    flags.top_k = "129";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--top-k 129 with --window 16384: a window holds 128 pages of 128 tokens"),
                         UsageError);
    CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("take --top-k 128 or less, or --window 16512"),
                         UsageError);
    for (const std::string text : {"-1", "four", "1.5", "0"}) {
        flags.top_k = text;
        CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--top-k: found"), UsageError);
    }
    flags.top_k = "8";
    flags.attention = "dense";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--top-k: found 8 with --attention dense"),
                         UsageError);
    flags.attention = "sparse";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--attention: found \"sparse\", allowed is dense, topk, random, local"),
                         UsageError);
}

TEST_CASE("a sliding window and sinks: tokens, with local and with nothing else") {
    RunFlags flags = flags_with_context("1M");
    flags.attention = "local";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--attention local needs --local-window"),
                         UsageError);
    flags.local_window = "4K";
    CHECK(to_run_configuration(flags).attention == AttentionMode::kLocal);
    CHECK(to_run_configuration(flags).local_window == 4096);
    CHECK(to_run_configuration(flags).window_tokens == 16384);  // how much is read at a time is another matter
    CHECK(to_run_configuration(flags).sinks == 0);
    flags.sinks = "1K";
    CHECK(to_run_configuration(flags).sinks == 1024);
    flags.sinks = "100";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--sinks: 100 tokens is not a multiple of the page (128 tokens); nearest: "
                                           "128"),
                         UsageError);
    flags.sinks = "";
    for (const std::string text : {"-1", "four", "0"}) {
        flags.local_window = text;
        CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains("--local-window"), UsageError);
    }
    flags.local_window = "4K";
    flags.attention = "dense";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--local-window: found 4096 with --attention dense"), UsageError);
}

TEST_CASE("flags as typed are read as what they were") {
    CHECK(as_typed(RunFlags{}).empty());
    RunFlags flags = flags_with_context("100000");
    flags.model = "models/a model's.json";
    flags.device = "cuda";
    flags.no_optimizer = true;
    CHECK(as_typed(flags) == "--model 'models/a model'\\''s.json' --device cuda --context 100000 --no-optimizer");
    flags.model = "m.json";
    flags.no_optimizer = false;
    flags.attention_kernels = "own";
    RunConfiguration run = to_run_configuration(flags);
    run.chunk_tokens = 640;
    run.window_tokens = 64 << 10;
    run.logit_tile_tokens = 1000;
    run.offload = Offload::kHost;
    run.hbm_pages = {HbmPages::Mode::kCount, 7};
    run.keep = Keep::kOutput;
    run.kept_pages = {Amount::Mode::kCount, 30};
    run.held_chunks = {Amount::Mode::kCount, 2};
    run.resident_shards = {};
    run.bf16_gradients = run.split_masters = true;
    set_flags(flags, run);
    std::vector<std::string> words;
    std::istringstream text(as_typed(flags));
    for (std::string word; text >> word;) {
        words.push_back(word);
    }
    const RunConfiguration again = to_run_configuration(parsed(words));
    CHECK(again.device == run.device);
    CHECK(again.context_tokens == run.context_tokens);
    CHECK(again.chunk_tokens == run.chunk_tokens);
    CHECK(again.window_tokens == run.window_tokens);
    CHECK(again.logit_tile_tokens == run.logit_tile_tokens);
    CHECK(again.offload == run.offload);
    CHECK(to_text(again.hbm_pages) == to_text(run.hbm_pages));
    CHECK(again.keep == run.keep);
    CHECK(to_text(again.kept_pages) == to_text(run.kept_pages));
    CHECK(to_text(again.held_chunks) == to_text(run.held_chunks));
    CHECK(states_text(again.resident_shards) == "host");
    CHECK(again.bf16_gradients);
    CHECK(again.split_masters);
    CHECK(again.attention_kernels == AttentionKernels::kOwn);
}

TEST_CASE("flags that nothing reads beside another one are refused with both names") {
    const auto refused = [](const RunFlags& flags, const char* words) {
        CHECK_THROWS_WITH_AS(to_run_configuration(flags), doctest::Contains(words), UsageError);
    };
    RunFlags flags = flags_with_context("1M");
    flags.no_optimizer = true;
    CHECK_NOTHROW(to_run_configuration(flags));
    flags.optimizer_states = "host";
    refused(flags, "--optimizer-states host with --no-optimizer");
    flags.optimizer_states = "auto";
    flags.dtype = "bf16";
    flags.master_weights = "remainder";
    refused(flags, "--master-weights remainder with --no-optimizer");
    flags.no_optimizer = false;
    CHECK_NOTHROW(to_run_configuration(flags));
    flags.kept_pages = "5";
    refused(flags, "--kept-pages 5 with --keep none");
    flags.keep_is_free = true;
    CHECK_NOTHROW(to_run_configuration(flags));
    flags.keep_is_free = false;
    flags.keep = "o";
    CHECK_NOTHROW(to_run_configuration(flags));
}

TEST_CASE("gradient dtype: fp32 or bf16, the latter beside bf16 weights alone") {
    RunFlags flags = flags_with_context("1M");
    CHECK(to_run_configuration(flags).gradient_type() == DType::kF32);
    flags.dtype = "fp64";
    CHECK(to_run_configuration(flags).gradient_type() == DType::kF64);
    flags.gradient_dtype = "fp32";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--gradient-dtype fp32 with --dtype fp64: in the oracle mode"), UsageError);
    flags.gradient_dtype = "bf16";
    CHECK_THROWS_AS(to_run_configuration(flags), UsageError);
    flags.dtype = "fp32";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--gradient-dtype bf16 with --dtype fp32: gradients can't be narrower"),
                         UsageError);
    flags.dtype = "bf16";
    CHECK(to_run_configuration(flags).gradient_type() == DType::kBF16);
    flags.gradient_dtype = "fp32";
    CHECK(to_run_configuration(flags).gradient_type() == DType::kF32);
    flags.gradient_dtype = "fp16";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--gradient-dtype: found \"fp16\", allowed is fp32, bf16"), UsageError);
}

TEST_CASE("master weights: fp32 or remainder, the latter beside bf16 weights alone") {
    RunFlags flags = flags_with_context("1M");
    CHECK(masters_text(to_run_configuration(flags)) == "none");
    flags.master_weights = "remainder";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--master-weights remainder with --dtype fp32: only bf16 weights"),
                         UsageError);
    flags.dtype = "bf16";
    for (const std::string text : {"fp32", "remainder"}) {
        flags.master_weights = text;
        CHECK(masters_text(to_run_configuration(flags)) == text);
        CHECK(to_run_configuration(flags).split_masters == (text == "remainder"));
    }
    flags.master_weights = "split";
    CHECK_THROWS_WITH_AS(to_run_configuration(flags),
                         doctest::Contains("--master-weights: found \"split\", allowed is fp32, remainder"),
                         UsageError);
}

TEST_CASE("free memory is the limit on the CPU unless both budgets are given") {
    RunFlags flags = flags_with_context("1K");
    CHECK(free_memory_limit_bytes(flags).value_or(0) > 0);
    flags.gpu_memory = "1GiB";
    CHECK(free_memory_limit_bytes(flags).has_value());
    flags.host_memory = "1GiB";
    CHECK_FALSE(free_memory_limit_bytes(flags).has_value());
    RunFlags on_cuda = flags_with_context("1K");
    on_cuda.device = "cuda";
    CHECK_FALSE(free_memory_limit_bytes(on_cuda).has_value());
}

TEST_CASE("the warning about positions begins one token past them") {
    ModelShape model;
    model.max_positions = 4096;
    RunConfiguration run;
    run.context_tokens = 4096;
    CHECK_FALSE(position_warning(run, model).has_value());
    run.context_tokens = 4097;
    CHECK(position_warning(run, model).has_value());
}

}  // namespace oomb
