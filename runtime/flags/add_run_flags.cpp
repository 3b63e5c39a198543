// The flags of a run as CLI11 and the help know them.
#include "runtime/flags/run_flags.hpp"

namespace oomb {
namespace {

constexpr const char* kWhat = "What is trained";
constexpr const char* kCuts = "How a sequence is cut";
constexpr const char* kPlaces = "Where bytes lie";

void add_what(CLI::App& app, RunFlags& flags) {
    app.add_option("--model", flags.model, "Hugging Face folder, or a config.json: the shape of the model")
        ->type_name("DIR_OR_CONFIG")
        ->required()
        ->group(kWhat);
    app.add_option("--context", flags.context, "length of the longest sequence: 128K, 1M or 100000")
        ->type_name("TOKENS")
        ->required()
        ->group(kWhat);
    app.add_option(
           "--attention", flags.attention,
           "what a token attends to. dense: every token before it; topk: those of its own chunk and, of the pages "
           "before the chunk, the --top-k that suit its page best; random: --top-k drawn at random, to compare with; "
           "local: the last --local-window, and --sinks. Sliding windows of the model's own "
           "layers hold with dense and local")
        ->type_name("dense|topk|random|local")
        ->default_str(flags.attention)
        ->group(kWhat);
    app.add_option(
           "--top-k", flags.top_k,
           "pages that a page of queries attends to under --attention topk and random; at most those of a window. "
           "With topk a mean key per page of the context stays in GPU memory")
        ->type_name("PAGES")
        ->default_str("none")
        ->group(kWhat);
    const auto tokens = [&](const char* name, std::string& value, const char* description) {
        app.add_option(name, value, description)->type_name("TOKENS")->default_str("none")->group(kWhat);
    };
    tokens("--local-window", flags.local_window,
           "tokens that a token attends to under --attention local, itself and those before it. (--window is how many "
           "are read at a time)");
    tokens("--sinks", flags.sinks,
           "first tokens of the sequence that every token attends to under --attention local; a multiple of the page");
}

// Its types, and who computes.
void add_how(CLI::App& app, RunFlags& flags) {
    app.add_option(
           "--dtype", flags.dtype,
           "of weights, activations and K/V. With fp32 and bf16 sums and gradients are fp32; fp64 is the oracle "
           "mode, everything in float64")
        ->type_name("bf16|fp32|fp64")
        ->default_str("bf16 with --device cuda, fp32 with cpu")
        ->group(kWhat);
    app.add_option("--gradient-dtype", flags.gradient_dtype,
                   "of the gradients of weight matrices, with --dtype bf16. bf16: half the memory, and a rounding to "
                   "bf16 each time that a chunk adds to one; those of norm weights and biases stay fp32")
        ->type_name("fp32|bf16")
        ->default_str("fp32; fp64 with --dtype fp64")
        ->group(kWhat);
    app.add_option(
           "--master-weights", flags.master_weights,
           "how AdamW keeps fp32 weights beside bf16 ones. fp32: 4 bytes each; remainder: only the 16 bits that "
           "bf16 leaves out, 2 bytes, and the same fp32 weights bit for bit")
        ->type_name("fp32|remainder")
        ->default_str(flags.master_weights)
        ->group(kWhat);
    app.add_option(
           "--attention-kernels", flags.attention_kernels,
           "of attention with --device cuda in bf16. cudnn: over windows gathered from pages, merged afterwards; own: "
           "over pages where they lie, which needs pages of 128 tokens and heads of 64 or 128; auto: cudnn. What "
           "reads the lists of topk and random is ours in any case")
        ->type_name("auto|cudnn|own")
        ->default_str(flags.attention_kernels)
        ->group(kWhat);
    app.add_flag("--deterministic", flags.deterministic,
                 "the same bits twice, wherever pages lie. On cuda attention's backward is then slower and with cudnn "
                 "needs more memory (a smaller --window and --chunk need less); the CPU always does")
        ->group(kWhat);
    app.add_flag("--no-optimizer", flags.no_optimizer, "no AdamW: gradients only, no room for its state")->group(kWhat);
}

void add_cuts(CLI::App& app, RunFlags& flags) {
    const auto tokens = [&](const char* name, std::string& value, const char* description) {
        app.add_option(name, value, description)->type_name("TOKENS")->default_str(value)->group(kCuts);
    };
    tokens("--chunk", flags.chunk, "tokens that go through the layers together; a multiple of the page");
    tokens("--page-tokens", flags.page_tokens, "tokens of one layer's K/V in a page, the unit that is moved");
    tokens(
        "--window", flags.window,
        "history is read in windows of this many tokens; a multiple of the page. Device memory grows with the window, "
        "not with the context");
    tokens("--logit-tile", flags.logit_tile, "rows of logits that exist at a time");
}

void add_places(CLI::App& app, RunFlags& flags) {
    const auto add = [&](const char* name, std::string& value, const char* type, const std::string& fallback,
                         const char* description) {
        app.add_option(name, value, description)->type_name(type)->default_str(fallback)->group(kPlaces);
    };
    add("--device", flags.device, "cpu|cuda", flags.device,
        "where operations run. cpu: an arena in host memory plays the GPU's part");
    add("--offload", flags.offload, "none|host", flags.offload,
        "host: K/V pages and their gradients move to host memory");
    add("--keep", flags.keep, "none|x|o|xo|all|auto", flags.keep,
        "what the fill keeps of each chunk and layer. none: all is computed again; x: layer input, no second forward; "
        "o: attention output and log-sum-exp, a second forward without attention; xo: all three; all: as --held-chunks "
        "all, no matrix product again, in GPU memory whatever --offload says (the host takes x, o and xo); auto: of "
        "all "
        "that fits the budgets (with --kept-pages auto also in part) what takes the least time, on the CPU the fewest "
        "operations");
    add("--kept-pages", flags.kept_pages, "auto|all|N", flags.kept_pages,
        "how many pages, one per chunk and layer, --keep keeps, the latest chunks first; whole chunks with x and xo. "
        "auto: as many as the budgets hold. Under --offload host they stay in GPU memory as far as its budget reaches, "
        "before K/V pages do; with --hbm-pages ring all go to the host");
    add("--held-chunks", flags.held_chunks, "auto|all|N", "0, all with --keep all",
        "chunks whose activations stay in GPU memory until their backward, which then repeats no matrix product. 1: of "
        "the chunk at hand; 2 and more: also of the last chunks, from the fill on; auto: as for --keep, "
        "together with it and --optimizer-states auto");
    add("--hbm-pages", flags.hbm_pages, "auto|ring|N", flags.hbm_pages,
        "K/V pages, counted over all layers, that stay in GPU memory under --offload host. auto: as many as the budget "
        "holds; ring: none, GPU memory does not depend on the context");
    add("--gradient-pages", flags.gradient_pages, "all|N", flags.gradient_pages,
        "with --attention topk or random under --offload host: K/V gradient pages, counted over all layers, that have "
        "room in host memory. A step whose lists name more ends with an error. all: as many as lists can name");
    add("--optimizer-states", flags.optimizer_states, "hbm|host|auto", flags.optimizer_states,
        "where AdamW's m and v (and --master-weights) lie. host: they pass through GPU memory once per "
        "step. auto: as many in GPU memory as kept pages leave room for, the rest on the host");
    const std::string free =
        " with --device cuda, or what the machine of --hardware has; with cpu both tiers share what this machine has "
        "free";
    add("--gpu-memory", flags.gpu_memory, "SIZE", kDefaultGpuMemory + free,
        "budget of GPU memory: 139GiB (powers of 1024) or 141GB (powers of 1000)");
    add("--host-memory", flags.host_memory, "SIZE", kDefaultHostMemory + free, "budget of host memory, as above");
}

}  // namespace

void add_run_flags(CLI::App& app, RunFlags& flags) {
    add_what(app, flags);
    add_how(app, flags);
    add_cuts(app, flags);
    add_places(app, flags);
}

}  // namespace oomb
