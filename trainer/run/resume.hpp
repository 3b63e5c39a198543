#pragma once
// Whether a run begins at its first step or goes on from a checkpoint, and what may have changed since
// (docs/checkpoints.md).

#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint_folder.hpp"
#include "trainer/run/run_inputs.hpp"

namespace oomb::trainer {

// Flags that change what a run computes, and their values as text.
std::map<std::string, std::string> settings_of(const TrainingOptions& options, const schedule::Plan& plan);

// The checkpoint that the run goes on from, with `inputs.reader` at its place in the data; nothing for a run that
// begins. Throws FileError for a folder that holds a checkpoint although options.resume is not set, and for one of
// other data; UsageError for one that is past options.learning_rate.steps. What is different now goes to `log`.
std::optional<Checkpoint> resumed_checkpoint(const TrainingOptions& options, const schedule::Plan& plan,
                                             RunInputs& inputs, std::FILE* log);

}  // namespace oomb::trainer
