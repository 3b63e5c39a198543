#pragma once
// How far the gradients of attention over a few pages are from those of dense attention, on the same weights and tokens
// (docs/evaluation.md).

#include <string_view>

#include "trainer/run/evaluation.hpp"

namespace oomb::trainer {

// Gradients of a layer: at the outputs of its K and V projections, all tokens; of its weights.
enum class GradientOf : std::uint8_t { kKeys, kValues, kWeights };
std::string_view name_of(GradientOf of);

// Sums over the elements of both gradients, in float64.
struct GradientSums {
    double product = 0.0;     // dense . sparse
    double dense = 0.0;       // dense . dense
    double sparse = 0.0;      // sparse . sparse
    double difference = 0.0;  // (sparse - dense) . (sparse - dense)

    double cosine() const;
    double norm_ratio() const;      // |sparse| / |dense|
    double relative_error() const;  // |sparse - dense| / |dense|
    void add(double of_dense, double of_sparse);
    GradientSums& operator+=(const GradientSums& other);
};

struct GradientError {
    std::int64_t pages = 0;
    std::int64_t layer = 0;  // -1, of kWeights: embedding, head and last norm
    GradientOf of = GradientOf::kWeights;
    GradientSums sums;
};

struct GradientErrors {
    std::int64_t tokens = 0;          // of all sequences
    double dense_loss = 0.0;          // mean over their valid targets
    std::vector<double> losses;       // of each plan with pages
    std::vector<GradientError> rows;  // of each plan with pages: kKeys, kValues, kWeights, by layer
    bool interrupted = false;
};

// One step of each plan over the same options.sequences sequences, at least one, without an update: `dense`, whose
// gradients stay in host memory, and then each of `sparse`, plans of the same run with pages. Backends run
// rope_backward in program order. Progress goes to `log`.
GradientErrors run_gradient_error(const EvaluationOptions& options, const schedule::Plan& dense,
                                  const std::vector<schedule::Plan>& sparse, const BackendFactory& make_backend,
                                  const std::atomic<bool>& stop, std::FILE* log);

// What the dense gradients take beside the plan, in fp32.
std::int64_t gradient_reference_bytes(const EvaluationOptions& options, const schedule::Plan& dense);

}  // namespace oomb::trainer
