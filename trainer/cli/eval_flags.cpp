#include "trainer/cli/eval_flags.hpp"

#include <sstream>
#include <thread>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/training_flags.hpp"
#include "trainer/cli/train_flags.hpp"

namespace oomb::trainer {
namespace {

constexpr const char* kWhat = "What is evaluated";
constexpr const char* kOutput = "Data and output";

constexpr std::int64_t kMostThreads = 4096;

// "128,1K,4K" as ascending numbers of tokens or pages.
std::vector<std::int64_t> ascending_list(std::string_view flag, const std::string& text) {
    std::vector<std::int64_t> list;
    std::stringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
        const std::int64_t number = parse_tokens(flag, word);
        if (!list.empty() && number <= list.back()) {
            fail<UsageError>("{}: found \"{}\", where {} follows {}; allowed are ascending numbers, such as 128,1K,4K",
                             flag, text, number, list.back());
        }
        list.push_back(number);
    }
    if (list.empty()) {
        fail<UsageError>("{}: found \"{}\", allowed are ascending numbers with commas between, such as 128,1K,4K", flag,
                         text);
    }
    return list;
}

// Powers of two below the pages before the last chunk.
InlineVector<std::int64_t, 16> recall_budgets(const EvalFlags& flags, const RunConfiguration& run) {
    InlineVector<std::int64_t, 16> budgets;
    if (!flags.recall) {
        if (!flags.budgets.empty()) {
            fail<UsageError>(
                "--budgets {} without --recall or --gradient-error, which measure them; give one of the two, or leave "
                "--budgets out",
                flags.budgets);
        }
        return budgets;
    }
    if (run.attention != AttentionMode::kDense) {
        fail<UsageError>(
            "--recall with --attention {}: measured is which share of dense attention pages cover; take --attention "
            "dense",
            name_of(run.attention));
    }
    if (run.context_tokens <= run.chunk_tokens) {
        fail<UsageError>(
            "--recall with --context {} and --chunk {}: there is no page before the chunk; take a smaller --chunk",
            run.context_tokens, run.chunk_tokens);
    }
    if (flags.budgets.empty()) {
        const std::int64_t history = (run.context_tokens - 1) / run.chunk_tokens * (run.chunk_tokens / run.page_tokens);
        for (std::int64_t pages = 1; pages < std::max<std::int64_t>(2, history) && budgets.size() < 16; pages *= 2) {
            budgets.push_back(pages);
        }
        return budgets;
    }
    const std::vector<std::int64_t> given = ascending_list("--budgets", flags.budgets);
    if (given.size() > 16) {
        fail<UsageError>("--budgets: found {} numbers, allowed are up to 16", given.size());
    }
    for (const std::int64_t pages : given) {
        budgets.push_back(pages);
    }
    return budgets;
}

void add_data_flags(CLI::App& app, EvalFlags& flags) {
    EvaluationOptions& options = flags.options;
    app.add_option("--data", options.data,
                   "tokens: a .npy of uint16 or uint32 made by tools/tokenize.py, or any other file, of which each "
                   "byte is a token")
        ->type_name("FILE")
        ->required()
        ->group(kOutput);
    app.add_flag("--by-document", options.by_document,
                 "evaluate each document of the data's sidecar by itself, as far as --context reaches, instead of "
                 "sequences of --context tokens one after the other")
        ->group(kOutput);
    app.add_option("--sequences", options.sequences, "only the first N sequences, or documents")
        ->type_name("N")
        ->default_str("all that are whole")
        ->group(kOutput);
    app.add_option("--buckets", flags.buckets, "where buckets of positions end: 1K,4K,16K; the last goes to --context")
        ->type_name("TOKENS,...")
        ->default_str("128 and its doubles")
        ->group(kOutput);
    app.add_option("--json", options.json, "everything that was measured (docs/evaluation.md); must not exist")
        ->type_name("FILE")
        ->group(kOutput);
    app.add_option("--losses", options.losses,
                   "the loss of every target, a .npy of float32, sequences (or documents) one after the other; must "
                   "not exist")
        ->type_name("FILE")
        ->group(kOutput);
}

void add_run_group(CLI::App& app, EvalFlags& flags) {
    app.add_flag("--recall", flags.recall,
                 "with --attention dense: also measure which share of the attention top-K pages would cover, by layer "
                 "and number of pages, and how far away they are")
        ->group(kWhat);
    app.add_flag(
           "--gradient-error", flags.gradient_error,
           "instead of losses: with --attention topk or random, how far the gradients of a training step over the "
           "first sequence (--sequences N: over N) are from dense attention's, by layer and number of pages")
        ->group(kWhat);
    app.add_option("--budgets", flags.budgets,
                   "numbers of pages that --recall (up to 16 of them) or --gradient-error measures: 4,16,64")
        ->type_name("PAGES,...")
        ->default_str("powers of two with --recall, required with --gradient-error")
        ->group(kWhat);
    app.add_option("--seed", flags.seed, "of the pages that --attention random draws")
        ->type_name("N")
        ->capture_default_str()
        ->group("Run");
    app.add_option("--threads", flags.options.threads, "CPU threads; the same number gives the same bits")
        ->type_name("N")
        ->default_str("all cores")
        ->group("Run");
    app.add_option("--hardware", flags.hardware,
                   "with --device cuda: machine (h200_sxm, h100_sxm) or hardware profile whose memory the budgets are")
        ->type_name("NAME|FILE")
        ->default_str("none")
        ->group("Run");
    app.add_flag("--dry-run", flags.dry_run, "print the plan, check data and output as a run would, and stop")
        ->group("Run");
}

}  // namespace

void add_eval_flags(CLI::App& app, EvalFlags& flags) {
    flags.options.threads = std::max(1U, std::thread::hardware_concurrency());
    add_run_flags(app, flags.run);
    for (const char* name : kTrainingFlags) {
        app.remove_option(app.get_option(name));
    }
    for (CLI::Option* option : app.get_options()) {
        if (option->get_group() == "What is trained") {
            option->group(kWhat);
        }
    }
    add_run_group(app, flags);
    add_data_flags(app, flags);
}

void refuse_training_flags(const CLI::App& app, int argc, const char* const* argv) {
    CLI::App training;
    RunFlags run;
    TrainFlags train;
    add_run_flags(training, run);
    add_train_flags(training, train);
    for (int i = 1; i < argc; ++i) {
        const std::string word(argv[i]);
        const std::string name = word.substr(0, word.find('='));
        const bool is_flag = name.starts_with("--") && name.size() > 2;
        if (is_flag && training.get_option_no_throw(name) != nullptr && app.get_option_no_throw(name) == nullptr) {
            fail<UsageError>(
                "{} with eval: it is a flag of training, and an evaluation computes no gradient and changes no weight; "
                "leave it out",
                name);
        }
    }
}

RunConfiguration to_evaluated_run(const EvalFlags& flags) {
    RunConfiguration run = to_run_configuration(flags.run);
    run.optimizer = false;
    run.forward_only = true;
    run.page_seed = flags.seed;
    run.recall_budgets = recall_budgets(flags, run);
    return run;
}

std::vector<RunConfiguration> to_compared_runs(const EvalFlags& flags) {
    if (flags.recall) {
        fail<UsageError>("--recall with --gradient-error: each is a run of its own; leave one of the two out");
    }
    if (flags.run.attention == "dense") {
        fail<UsageError>(
            "--gradient-error with --attention dense: dense attention is what is compared with; take --attention topk "
            "or random");
    }
    if (!flags.options.losses.empty()) {
        fail<UsageError>(
            "--losses {} with --gradient-error, which compares gradients and has no loss by position; leave one of the "
            "two out",
            flags.options.losses.string());
    }
    if (!flags.run.top_k.empty()) {
        fail<UsageError>("--top-k {} with --gradient-error: the numbers of pages are those of --budgets; leave it out",
                         flags.run.top_k);
    }
    if (flags.budgets.empty()) {
        fail<UsageError>("--gradient-error needs --budgets, the numbers of pages to compare, such as 4,16,64");
    }
    RunFlags dense = flags.run;
    const std::string attention = std::exchange(dense.attention, "dense");
    std::vector<RunConfiguration> runs;
    const auto add = [&](const RunFlags& of) {
        runs.push_back(to_run_configuration(of));
        runs.back().optimizer = false;
        runs.back().page_seed = flags.seed;
    };
    add(dense);
    for (const std::int64_t pages : ascending_list("--budgets", flags.budgets)) {
        RunFlags sparse = flags.run;
        sparse.top_k = std::to_string(pages);
        add(sparse);
    }
    return runs;
}

EvaluationOptions to_evaluation_options(const EvalFlags& flags, const RunConfiguration& run,
                                        const std::string& command) {
    EvaluationOptions options = flags.options;
    if (options.threads < 1 || options.threads > kMostThreads) {
        fail<UsageError>("--threads: found {}, allowed is 1 to {}", options.threads, kMostThreads);
    }
    if (!flags.buckets.empty()) {
        options.bucket_ends = ascending_list("--buckets", flags.buckets);
        if (options.bucket_ends.back() > run.context_tokens) {
            fail<UsageError>("--buckets: found an end of {}, the context has {} tokens; give smaller ends",
                             options.bucket_ends.back(), run.context_tokens);
        }
    }
    if (!options.losses.empty() && options.losses.lexically_normal() == options.json.lexically_normal()) {
        fail<UsageError>("--json and --losses: found \"{}\" for both; give each a name of its own",
                         options.losses.string());
    }
    options.command = command;
    options.model = flags.run.model;
    return options;
}

}  // namespace oomb::trainer
