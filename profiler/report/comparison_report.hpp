#pragma once
// A comparison of predicted, traced and recorded step as tables for a terminal, and as JSON (docs/comparing.md).

#include <string>
#include <vector>

#include "profiler/analysis/comparison.hpp"

namespace oomb::profiler {

struct ComparisonText {
    BySource<std::string> captions;  // what each source is; empty: not given
    std::vector<std::string> notes;  // what makes the numbers less than the whole truth
};

std::string comparison_text(const Comparison& comparison, const ComparisonText& about);
Json comparison_json(const Comparison& comparison, const ComparisonText& about);

// A line for each source that lacks operations, and one where bytes differ.
std::vector<std::string> notes_of(const Comparison& comparison);

}  // namespace oomb::profiler
