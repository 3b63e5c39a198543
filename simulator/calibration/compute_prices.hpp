#pragma once
// The prices of the compute engine's work that explain what operations took best.

#include <map>
#include <vector>

#include "simulator/calibration/rate_fit.hpp"
#include "simulator/costs/operation_parts.hpp"

namespace oomb::simulator {

// A price: of a part, or of a tile kernel's FLOPs or waves, attention's for each head size.
struct Unknown {
    int number = 0;
    std::int64_t head_dim = 0;
    auto operator<=>(const Unknown&) const = default;
};
constexpr Unknown unknown_of(Part part) {
    return {static_cast<int>(part), 0};
}
constexpr Unknown flops_of(TileKernel kernel, std::int64_t head_dim) {
    return {kParts + 2 * static_cast<int>(kernel), head_dim};
}
constexpr Unknown waves_of(TileKernel kernel, std::int64_t head_dim) {
    return {kParts + 2 * static_cast<int>(kernel) + 1, head_dim};
}
using Prices = std::map<Unknown, double>;

// What an operation of this shape did.
schedule::Operation operation_of(const ShapeTime& shape);

// What the stamps before and after an operation take: a release has no kernel. 0 where there is none.
double stamp_seconds(const RecordedRun& run);

// Of operations of which some waited for the host between their kernels the fast ones count.
double seconds_of(const ShapeTime& shape);

struct Reading {
    OperationParts parts;
    double seconds = 0.0, weight = 0.0;
};
std::vector<Reading> compute_readings(const std::vector<RecordedRun>& runs, std::int64_t multiprocessors);

struct Term {
    Unknown unknown;
    double amount = 0.0;
};
// What a reading is made of if these are the prices: the way to cut it that then is the fastest, or its bytes.
std::vector<Term> terms_of(const OperationParts& parts, const Prices& prices);
double sum_of(const std::vector<Term>& terms, const Prices& prices);

// Least squares; see fit_rates(). Prices of 0: nothing is left for them to explain. Where the waves of a kernel all
// have the same FLOPs (chunks of one length) their two prices cannot be told apart: FLOPs get all, waves have none.
Prices compute_prices(const std::vector<Reading>& readings);

}  // namespace oomb::simulator
