#pragma once
// An evaluation as a table and as JSON. The same input gives the same bytes: neither holds a time.

#include <string>

#include "trainer/run/evaluation.hpp"

namespace oomb::trainer {

// Loss and perplexity by position, then recall by budget where it was measured.
std::string evaluation_table(const Evaluation& evaluation, const schedule::Plan& plan);

// Format "oomb-evaluation", documented in docs/evaluation.md.
std::string evaluation_json(const Evaluation& evaluation, const EvaluationOptions& options, const schedule::Plan& plan);

}  // namespace oomb::trainer
