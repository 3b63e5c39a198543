#include "trainer/run/run_inputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/core/error.hpp"
#include "trainer/data/random_tokens.hpp"
#include "trainer/weights/check_weights.hpp"

namespace oomb::trainer {
namespace {

template <class... Args>
void say(std::FILE* log, fmt::format_string<Args...> format, Args&&... args) {
    std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), log);
    std::fflush(log);
}

std::unique_ptr<SequenceReader> random_reader(const TrainingOptions& options, const schedule::Plan& plan) {
    constexpr std::int64_t kEndless_tokens = std::int64_t{1} << 62;
    return std::make_unique<SequenceReader>(make_random_tokens(options.seed, plan.model.vocab, kEndless_tokens),
                                            plan.run.context_tokens, plan.model.vocab);
}

std::unique_ptr<SequenceReader> file_reader(const TrainingOptions& options, const schedule::Plan& plan,
                                            std::FILE* log) {
    return std::make_unique<SequenceReader>(open_tokens(options.data, options.model, log).source,
                                            plan.run.context_tokens, plan.model.vocab);
}

void refuse_existing(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
        fail<FileError>("{}: exists already; move it away or name another output", path.string());
    }
    if (error) {
        fail<FileError>("{}: {}; name another output", path.string(), error.message());
    }
}

}  // namespace

TokenInput open_tokens(const std::filesystem::path& data, const std::filesystem::path& model, std::FILE* log) {
    TokenInput input{open_token_source(data), std::nullopt};
    input.sidecar = read_sidecar(data, *input.source);
    if (!input.sidecar) {
        return input;
    }
    switch (check_tokenizer(*input.sidecar, data, model)) {
        case TokenizerCheck::kSame:
            break;
        case TokenizerCheck::kNotRecorded:
            say(log, "warning: the sidecar of {} names no tokenizer; that it is the model's could not be checked\n",
                data.string());
            break;
        case TokenizerCheck::kModelHasNoTokenizer:
            say(log, "warning: {} has no tokenizer.json; that {} was made with the model's could not be checked\n",
                model.string(), data.string());
            break;
    }
    return input;
}

WeightFolder open_weights(const std::filesystem::path& model, const ModelShape& shape, std::FILE* log) {
    WeightFolder weights = WeightFolder::open(model);
    for (const std::string& name : check_weights(weights, shape)) {
        say(log, "{} is not used and will not be written\n", name);
    }
    return weights;
}

void set_weights(Backend& backend, const WeightFolder& weights) {
    const auto& parameters = backend.layout().parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        backend.set_weight(i, weights.bytes(parameters[i].name), weights.find(parameters[i].name)->dtype.value());
    }
}

RunInputs open_inputs(const TrainingOptions& options, const schedule::Plan& plan, std::FILE* log) {
    RunInputs inputs;
    if (!options.from_scratch) {
        inputs.weights = open_weights(options.model, plan.model, log);
    }
    if (options.synthetic) {
        inputs.reader = random_reader(options, plan);
        say(log, "synthetic: random weights and random tokens; only times and bytes of this run mean something\n");
    } else {
        inputs.reader = file_reader(options, plan, log);
        say(log, "{}\n", inputs.reader->describe());
    }
    return inputs;
}

void check_output_file(const std::filesystem::path& file) {
    refuse_existing(file);
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
        fail<FileError>("{}: there is no folder {} to write it to; make it, or name another output", file.string(),
                        folder.string());
    }
    if (access(folder.c_str(), W_OK) != 0) {
        fail<FileError>("{}: the folder {} is not writable; name another output", file.string(), folder.string());
    }
}

void check_outputs(const TrainingOptions& options, const schedule::Plan& plan, const RunInputs& inputs,
                   std::int64_t steps_before) {
    for (const std::filesystem::path& file : {options.trace, options.dump_gradients}) {
        if (!file.empty()) {
            check_output_file(file);
        }
    }
    if (!options.metrics.empty() && steps_before == 0) {
        check_output_file(options.metrics);
    }
    if (options.out.empty()) {
        return;
    }
    std::int64_t folders = 1;
    for (std::int64_t step = options.save_every; saves_after(options, step); step += options.save_every) {
        if (steps_before == 0) {
            refuse_existing(step_folder(options, step));
        }
        folders += step > steps_before;
    }
    HfFolderWriter(folder_request(options, plan, inputs, options.out)).check_space(folders);
}

HfFolderRequest folder_request(const TrainingOptions& options, const schedule::Plan& plan, const RunInputs& inputs,
                               const std::filesystem::path& out) {
    HfFolderRequest request;
    request.source = options.model;
    request.out = out;
    request.tensors = stored_tensors(plan.model, inputs.weights ? &*inputs.weights : nullptr);
    request.config_changes_json = config_for_context(plan.run.context_tokens, plan.model.max_positions);
    return request;
}

bool saves_after(const TrainingOptions& options, std::int64_t step) {
    return options.save_every > 0 && step % options.save_every == 0 && step < options.learning_rate.steps;
}

std::filesystem::path step_folder(const TrainingOptions& options, std::int64_t step) {
    return fmt::format("{}-step{}", options.out.string(), step);
}

}  // namespace oomb::trainer
