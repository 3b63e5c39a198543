#pragma once
// A model of which pages the lists of a top-K run name, for steps that nobody has recorded. Three numbers:
//
//   sink     so many of the first pages of the sequence are in every list
//   recency, zipf   the rest is drawn without replacement, a page with weight distance^-recency * u^-zipf
//
// where the latest page before the chunk has distance 1, and u, uniform in (0, 1), is a page's own in its layer, the
// same for all lists: among n pages the one of rank r in u has weight (r / n)^-zipf, so a few pages are named by many
// lists. 0: all alike. What is left of a whole number of sink pages is the probability of one more. Every draw is a
// function of layer, query page and count: the same plan and numbers give the same lists, in any order. Which pages a
// real text needs depends on the text; the numbers are as good as the trace that they were fitted on.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "simulator/lists/page_trace.hpp"

namespace oomb::simulator {

struct Locality {
    double sink = 0.0;     // pages, 0 to kMostSink
    double recency = 0.0;  // exponent, 0 to kMostExponent
    double zipf = 0.0;     // exponent, 0 to kMostExponent
    std::string source;    // where the numbers come from
};
inline constexpr double kMostSink = 1e6, kMostExponent = 8.0;

// Fitted as docs/measurements/locality-smollm2.md says.
Locality default_locality();

// "0.5,1.2,0.9", or a file of oomb-plan locality --json: {"format": "oomb-locality", "version": 1, "sink": 0.5,
// "recency": 1.2, "zipf": 0.9, "source": "..."}. UsageError or FileError: what was found, what is allowed.
Locality read_locality(const std::string& text_or_path);
nlohmann::ordered_json locality_json(const Locality& locality);
std::string to_text(const Locality& locality);  // "sink 0.5, recency 1.2, zipf 0.9"

std::unique_ptr<issue::PageListSource> modelled_lists(const Locality& locality, const ListedRun& run);

}  // namespace oomb::simulator
