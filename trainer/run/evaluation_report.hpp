#pragma once
// An evaluation as a table and as JSON. The same input gives the same bytes: neither holds a time.

#include <string>

#include "trainer/run/gradient_error.hpp"

namespace oomb::trainer {

// Loss and perplexity by position, then recall by budget where it was measured.
std::string evaluation_table(const Evaluation& evaluation, const schedule::Plan& plan);

// Format "oomb-evaluation", documented in docs/evaluation.md.
std::string evaluation_json(const Evaluation& evaluation, const EvaluationOptions& options, const schedule::Plan& plan);

// Gradients under pages beside dense ones: by number of pages over all layers; by layer in the JSON, of the same
// format.
std::string gradient_error_table(const GradientErrors& errors);
std::string gradient_error_json(const GradientErrors& errors, const EvaluationOptions& options,
                                const schedule::Plan& plan);

}  // namespace oomb::trainer
