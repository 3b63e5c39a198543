#include "trainer/cli/train_flags.hpp"

#include <cmath>
#include <thread>
#include <utility>

#include "runtime/core/nearest.hpp"

namespace oomb::trainer {
namespace {

constexpr const char* kOptimizerGroup = "Optimizer (AdamW)";

void check_range(std::string_view flag, double found, double least, double below, std::string_view allowed) {
    if (!std::isfinite(found) || found < least || found >= below) {
        fail<UsageError>("{}: found {}, allowed is {}", flag, found, allowed);
    }
}

void check_count(std::string_view flag, std::int64_t found, std::int64_t least, std::int64_t most) {
    if (found < least || found > most) {
        fail<UsageError>("{}: found {}, allowed is {} to {}", flag, found, least, most);
    }
}

void add_data_flags(CLI::App& app, TrainingOptions& options) {
    app.add_option("--data", options.data,
                   "tokens: a .npy of uint16 or uint32 made by tools/tokenize.py, or any other file, of which each "
                   "byte is a token")
        ->type_name("FILE")
        ->group("Data and output");
    app.add_option("--out", options.out, "write the trained model here, as a Hugging Face folder; must not exist")
        ->type_name("DIR")
        ->group("Data and output");
    app.add_option("--save-every", options.save_every,
                   "also write <out>-step<N> after every N steps; 0: only at the end")
        ->type_name("N")
        ->capture_default_str()
        ->group("Data and output");
    app.add_option("--checkpoint", options.checkpoint,
                   "keep the state of the run in this folder (docs/checkpoints.md): weights, m, v, place in the data; "
                   "also when a signal ends the run, whose --out is then not written")
        ->type_name("DIR")
        ->group("Data and output");
    app.add_option("--checkpoint-minutes", options.checkpoint_minutes,
                   "time between two checkpoints, at least; 0: one after every step")
        ->type_name("X")
        ->capture_default_str()
        ->group("Data and output");
    app.add_flag("--resume", options.resume,
                 "go on from the checkpoint of --checkpoint, if there is one; --metrics is continued")
        ->group("Data and output");
    app.add_option("--metrics", options.metrics, "one JSON object per step and line (docs/metrics.md); must not exist")
        ->type_name("FILE")
        ->group("Data and output");
    app.add_option("--trace", options.trace,
                   "one line per operation: engine, begin, end, bytes, pages (docs/trace-format.md); must not exist")
        ->type_name("FILE")
        ->group("Data and output");
    app.add_option("--dump-gradients", options.dump_gradients,
                   "write the first step's gradients, before clipping, as safetensors; must not exist")
        ->type_name("FILE")
        ->group("Data and output");
}

void add_optimizer_flags(CLI::App& app, TrainFlags& flags) {
    TrainingOptions& options = flags.options;
    const auto add = [&](const char* name, auto& value, const char* what, const char* type) {
        app.add_option(name, value, what)->type_name(type)->capture_default_str()->group(kOptimizerGroup);
    };
    add("--steps", options.learning_rate.steps, "optimizer steps", "N");
    add("--learning-rate", options.learning_rate.peak, "peak learning rate", "X");
    add("--warmup-steps", options.learning_rate.warmup_steps, "steps over which the learning rate rises from 0", "N");
    add("--schedule", flags.schedule, "learning rate after the warm-up: cosine down to 0, or constant",
        "cosine|constant");
    add("--gradient-accumulation", options.accumulation, "sequences of --context tokens per optimizer step", "N");
    add("--weight-decay", options.optimizer.weight_decay, "decoupled; not on norms and biases", "X");
    add("--beta1", options.optimizer.beta1, "decay of the first moment", "X");
    add("--beta2", options.optimizer.beta2, "decay of the second moment", "X");
    add("--epsilon", options.optimizer.epsilon, "added to the root of the second moment", "X");
    add("--max-grad-norm", options.optimizer.max_grad_norm, "clip the global gradient norm to this; 0: no clipping",
        "X");
}

// Of what a run writes nothing may be untrained, and nothing may be written over something else.
void check_paths(const TrainingOptions& options, const std::filesystem::path& profile, bool updates_weights) {
    if (!options.out.empty() && !updates_weights) {
        fail<UsageError>(
            "--out {} with --no-optimizer: no step changes a weight, so the model written there would be the one that "
            "was read; leave one of the two out (--dump-gradients FILE writes gradients)",
            options.out.string());
    }
    if (!options.out.empty() && options.synthetic) {
        fail<UsageError>(
            "--out {} with --synthetic: a model that saw random tokens is worth nothing; leave --out out, or train on "
            "--data FILE (with --from-scratch, if it is to begin with random weights)",
            options.out.string());
    }
    const std::pair<const char*, const std::filesystem::path*> files[] = {
        {"--out", &options.out},         {"--checkpoint", &options.checkpoint},
        {"--metrics", &options.metrics}, {"--trace", &options.trace},
        {"--profile", &profile},         {"--dump-gradients", &options.dump_gradients}};
    for (const auto& [flag, path] : files) {
        for (const auto& [other, same] : files) {
            if (flag != other && !path->empty() && path->lexically_normal() == same->lexically_normal()) {
                fail<UsageError>("{} and {}: found \"{}\" for both; give each a name of its own", flag, other,
                                 path->string());
            }
        }
    }
}

void check_checkpoint(const TrainingOptions& options, bool updates_weights) {
    constexpr double kMostMinutes = 1e6;
    check_range("--checkpoint-minutes", options.checkpoint_minutes, 0, kMostMinutes,
                "a number from 0 to below 1000000");
    if (options.checkpoint.empty()) {
        if (options.resume) {
            fail<UsageError>("--resume needs --checkpoint DIR, the folder that holds the state of the run");
        }
        return;
    }
    if (!updates_weights || options.synthetic) {
        fail<UsageError>(
            "--checkpoint {} with {}: such a run changes no weight that is worth keeping; leave one of the two out",
            options.checkpoint.string(), updates_weights ? "--synthetic" : "--no-optimizer");
    }
}

}  // namespace

void refuse_unused_optimizer_flags(const CLI::App& app, bool no_optimizer) {
    for (const CLI::Option* option : app.get_options()) {
        const std::string name = option->get_name();
        const bool counts_sequences = name == "--steps" || name == "--gradient-accumulation";
        if (no_optimizer && option->count() > 0 && option->get_group() == kOptimizerGroup && !counts_sequences) {
            fail<UsageError>(
                "{} with --no-optimizer: without AdamW no weight is updated, so it has no effect; leave one of the "
                "two out",
                name);
        }
    }
}

void add_train_flags(CLI::App& app, TrainFlags& flags) {
    TrainingOptions& options = flags.options;
    options.learning_rate = {.peak = 1e-5, .warmup_steps = 0, .steps = 1};
    options.optimizer.max_grad_norm = 1.0;
    options.threads = std::max(1U, std::thread::hardware_concurrency());
    add_data_flags(app, options);
    add_optimizer_flags(app, flags);
    app.add_flag("--from-scratch", options.from_scratch,
                 "start from random weights; --model may then be a config file alone")
        ->group("Run");
    app.add_flag(
           "--synthetic", options.synthetic,
           "to measure: random weights and uniformly random tokens, no --data; --model may be a config file alone")
        ->group("Run");
    app.add_option("--locality", flags.locality,
                   "with --synthetic and --attention topk: take these lists of pages in place of those selected (sink, "
                   "recency, zipf, or a file of oomb-plan locality), for random weights name pages near and far alike")
        ->type_name("S,R,Z|FILE")
        ->group("Run");
    app.add_option("--page-trace", flags.page_trace,
                   "the same, with the lists that this trace recorded, of the same run")
        ->type_name("FILE")
        ->group("Run");
    app.add_option("--seed", options.seed, "of random weights, random tokens and --attention random")
        ->type_name("N")
        ->capture_default_str()
        ->group("Run");
    app.add_option("--threads", options.threads, "CPU threads; the same number gives the same bits")
        ->type_name("N")
        ->default_str("all cores")
        ->group("Run");
    app.add_option(
           "--hardware", flags.hardware,
           "machine (h200_sxm, h100_sxm) or hardware profile: with --device cuda, report model FLOPs against its peak, "
           "and the predicted time of a step")
        ->type_name("NAME|FILE")
        ->default_str("that of this machine's GPU, where it is known")
        ->group("Run");
    app.add_option("--profile", flags.profile,
                   "with --device cuda: record what the GPU did, for oomb-profile report; must not exist")
        ->type_name("FILE")
        ->group("Data and output");
    app.add_option("--profile-steps", flags.profile_steps,
                   "with --profile: only from the begin of step A to the end of step B, counted from 1")
        ->type_name("A:B")
        ->group("Data and output");
    app.add_flag("--dry-run", flags.dry_run, "print the plan, check data and outputs as a run would, and stop")
        ->group("Run");
}

std::optional<profiler::StepRange> profile_steps_of(const TrainFlags& flags) {
    if (flags.profile_steps.empty()) {
        return std::nullopt;
    }
    if (flags.profile.empty()) {
        fail<UsageError>("--profile-steps {} without --profile FILE, which records them", flags.profile_steps);
    }
    const profiler::StepRange range = profiler::parse_steps("--profile-steps", flags.profile_steps);
    if (range.first > flags.options.learning_rate.steps) {
        fail<UsageError>("--profile-steps: found \"{}\", and the run has {} (--steps)", flags.profile_steps,
                         flags.options.learning_rate.steps);
    }
    return range;
}

TrainingOptions to_training_options(const TrainFlags& flags, bool updates_weights, const std::string& model,
                                    const std::string& command) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr std::int64_t kMostSteps = 1'000'000'000;
    TrainingOptions options = flags.options;
    const StepSettings& adam = options.optimizer;
    check_range("--learning-rate", options.learning_rate.peak, 0, kInfinity, "a number from 0");
    check_range("--weight-decay", adam.weight_decay, 0, kInfinity, "a number from 0");
    check_range("--beta1", adam.beta1, 0, 1, "a number from 0 to below 1");
    check_range("--beta2", adam.beta2, 0, 1, "a number from 0 to below 1");
    check_range("--epsilon", adam.epsilon, std::numeric_limits<double>::min(), kInfinity, "a number above 0");
    check_range("--max-grad-norm", adam.max_grad_norm, 0, kInfinity, "a number from 0");
    check_count("--steps", options.learning_rate.steps, 1, kMostSteps);
    check_count("--warmup-steps", options.learning_rate.warmup_steps, 0, options.learning_rate.steps);
    check_count("--gradient-accumulation", options.accumulation, 1, 4096);
    check_count("--save-every", options.save_every, 0, kMostSteps);
    check_count("--threads", options.threads, 1, 4096);
    if (flags.schedule != "cosine" && flags.schedule != "constant") {
        fail<UsageError>("--schedule: found \"{}\", allowed is cosine or constant{}", flags.schedule,
                         did_you_mean(flags.schedule, {"cosine", "constant"}));
    }
    if (options.synthetic && !options.data.empty()) {
        fail<UsageError>("--data: found \"{}\" with --synthetic, which trains on random tokens; leave one of them out",
                         options.data.string());
    }
    if (options.data.empty() && !options.synthetic && !flags.dry_run) {
        fail<UsageError>(
            "--data is required: a .npy of tokens, or a text file of which each byte is a token; or --synthetic, to "
            "measure without data");
    }
    for (const auto& [name, value] : {std::pair{"--locality", &flags.locality}, {"--page-trace", &flags.page_trace}}) {
        if (!value->empty() && !options.synthetic) {
            fail<UsageError>(
                "{}: found {} without --synthetic: a model that attends to pages that it did not select learns "
                "nothing; "
                "leave it out, or measure with --synthetic (oomb-plan predicts with it, too)",
                name, *value);
        }
    }
    check_paths(options, flags.profile, updates_weights);
    if (options.save_every > 0 && options.out.empty()) {
        fail<UsageError>("--save-every needs --out, beside which the folders are written");
    }
    check_checkpoint(options, updates_weights);
    options.learning_rate.schedule =
        flags.schedule == "cosine" ? LearningRateSchedule::kCosine : LearningRateSchedule::kConstant;
    options.from_scratch = options.from_scratch || options.synthetic;
    options.updates_weights = updates_weights;
    options.model = model;
    options.command = command;
    return options;
}

}  // namespace oomb::trainer
