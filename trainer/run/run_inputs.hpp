#pragma once
// What a run reads and where it will write, checked before the first step.

#include <cstdio>
#include <memory>
#include <optional>

#include "runtime/schedule/plan.hpp"
#include "trainer/data/sequence_reader.hpp"
#include "trainer/data/sidecar.hpp"
#include "trainer/run/training.hpp"
#include "trainer/weights/hf_folder_writer.hpp"
#include "trainer/weights/weight_folder.hpp"

namespace oomb::trainer {

// A token file and what is written beside it, checked against each other and against the model's tokenizer. Throws
// FileError; what could not be checked goes to `log`.
struct TokenInput {
    std::shared_ptr<const TokenSource> source;
    std::optional<TokenSidecar> sidecar;
};
TokenInput open_tokens(const std::filesystem::path& data, const std::filesystem::path& model, std::FILE* log);

// The weights of a model folder, checked against the shape. Throws FileError; what is not used goes to `log`.
WeightFolder open_weights(const std::filesystem::path& model, const ModelShape& shape, std::FILE* log);
void set_weights(Backend& backend, const WeightFolder& weights);

struct RunInputs {
    std::optional<WeightFolder> weights;  // none from scratch
    std::unique_ptr<SequenceReader> reader;
};

// Opens weights and tokens. Throws FileError for those that are missing, damaged, of another shape, too few, or of
// another tokenizer. Notes for the user go to `log`.
RunInputs open_inputs(const TrainingOptions& options, const schedule::Plan& plan, std::FILE* log);

// FileError for a file that exists already or has no folder to lie in.
void check_output_file(const std::filesystem::path& file);

// What could not be written at the end: FileError for what exists already or has no folder to lie in, DoesNotFitError
// for a disk that is too small. Writes nothing. Of a run that goes on after `steps_before` steps the metrics and the
// folders of --save-every may be there.
void check_outputs(const TrainingOptions& options, const schedule::Plan& plan, const RunInputs& inputs,
                   std::int64_t steps_before);

HfFolderRequest folder_request(const TrainingOptions& options, const schedule::Plan& plan, const RunInputs& inputs,
                               const std::filesystem::path& out);
bool saves_after(const TrainingOptions& options, std::int64_t step);  // a folder, between steps
std::filesystem::path step_folder(const TrainingOptions& options, std::int64_t step);

}  // namespace oomb::trainer
