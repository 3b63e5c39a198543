#pragma once
// What an evaluation reads and where it will write, checked before the first operation. Private to the room.

#include "trainer/data/evaluated_text.hpp"
#include "trainer/run/evaluation.hpp"
#include "trainer/weights/weight_folder.hpp"

namespace oomb::trainer {

struct EvaluationInputs {
    WeightFolder weights;
    EvaluatedText text;
};

// Throws FileError for weights and tokens that are missing, damaged, of another shape, too few or of another tokenizer,
// and for an output that exists already or has no folder. Notes for the user go to `log`.
EvaluationInputs open_evaluation(const EvaluationOptions& options, const schedule::Plan& plan, std::FILE* log);

}  // namespace oomb::trainer
