#include "trainer/run/gradient_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/core/units.hpp"
#include "trainer/run/evaluation_inputs.hpp"
#include "trainer/run/progress.hpp"
#include "trainer/run/run_inputs.hpp"
#include "trainer/weights/convert.hpp"

namespace oomb::trainer {
namespace {

using schedule::Operation;

template <class... Args>
void say(std::FILE* log, fmt::format_string<Args...> format, Args&&... args) {
    std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), log);
    std::fflush(log);
}

// Gradients of one step, told in the order in which they come, the same for every plan.
class GradientListener {
  public:
    virtual ~GradientListener() = default;
    // Rows from token `first` of a sequence, [rows, K/V width].
    virtual void take(const Operation& at, GradientOf of, std::span<const float> values) = 0;
    virtual void take_weight(std::size_t parameter, std::int64_t layer, std::span<const float> values) = 0;
};

// Where the values of dense attention lie, one behind the other in the order of arrival.
struct Reference {
    std::vector<float> values;
};

class Recorder : public GradientListener {
  public:
    explicit Recorder(Reference& reference) : reference_(reference) {}
    void take(const Operation& /*at*/, GradientOf /*of*/, std::span<const float> values) override { add(values); }
    void take_weight(std::size_t /*parameter*/, std::int64_t /*layer*/, std::span<const float> values) override {
        add(values);
    }

  private:
    void add(std::span<const float> values) {
        reference_.values.insert(reference_.values.end(), values.begin(), values.end());
    }
    Reference& reference_;
};

// [3, layers + 1] sums; those of no layer last.
class Comparer : public GradientListener {
  public:
    Comparer(const Reference& reference, std::int64_t layers)
        : reference_(reference), layers_(layers), sums_(3 * (layers + 1)) {}

    void take(const Operation& at, GradientOf of, std::span<const float> values) override {
        compare(this->of(of, at.id.layer), values);
    }
    void take_weight(std::size_t /*parameter*/, std::int64_t layer, std::span<const float> values) override {
        compare(of(GradientOf::kWeights, layer < 0 ? layers_ : layer), values);
    }

    std::vector<GradientError> rows(std::int64_t pages) const {
        std::vector<GradientError> rows;
        for (const GradientOf what : {GradientOf::kKeys, GradientOf::kValues, GradientOf::kWeights}) {
            const std::int64_t count = what == GradientOf::kWeights ? layers_ + 1 : layers_;
            for (std::int64_t layer = 0; layer < count; ++layer) {
                rows.push_back({pages, layer == layers_ ? -1 : layer, what,
                                sums_[static_cast<std::size_t>(what) * (layers_ + 1) + layer]});
            }
        }
        return rows;
    }

  private:
    GradientSums& of(GradientOf what, std::int64_t layer) {
        return sums_[static_cast<std::size_t>(what) * (layers_ + 1) + layer];
    }
    void compare(GradientSums& sums, std::span<const float> values) {
        require(at_ + values.size() <= reference_.values.size(),
                "gradient error: more gradients than of dense attention");
        for (const float value : values) {
            sums.add(static_cast<double>(reference_.values[at_++]), static_cast<double>(value));
        }
    }

    const Reference& reference_;
    std::int64_t layers_;
    std::vector<GradientSums> sums_;
    std::size_t at_ = 0;
};

class GradientRun {
  public:
    GradientRun(const EvaluationOptions& options, const schedule::Plan& dense, const BackendFactory& make_backend,
                const std::atomic<bool>& stop, std::FILE* log)
        : make_backend_(make_backend), stop_(stop), log_(log), inputs_(open_evaluation(options, dense, log)) {
        for (std::int64_t i = 0; i < inputs_.text.size(); ++i) {
            sequences_.push_back(inputs_.text.read(i, dense.model.vocab));
            tokens_ += std::ssize(sequences_.back().inputs());
        }
    }

    std::int64_t tokens() const { return tokens_; }

    // The mean loss.
    double step(const schedule::Plan& plan, std::int64_t number, std::int64_t steps, GradientListener& listener) {
        const std::unique_ptr<Backend> backend = make_backend_(plan);
        set_weights(*backend, inputs_.weights);
        Executor executor(plan, *backend, &stop_);
        const schedule::StepShape shape(plan.model, plan.run);
        const auto count = static_cast<double>(sequences_.size());
        Progress progress(steps, {.flops = count * sequence_flops(shape), .tokens = tokens_, .chunks = shape.chunks()},
                          log_);
        backend->on_kv_gradients = [&](const Operation& operation, const KvGradients& gradients) {
            listener.take(operation, GradientOf::kKeys, gradients.keys);
            listener.take(operation, GradientOf::kValues, gradients.values);
        };
        backend->on_done = [&](const Operation& operation) { progress.done(operation); };
        std::vector<SequenceView> views;
        for (const Sequence& sequence : sequences_) {
            views.push_back({sequence.inputs(), sequence.targets()});
        }
        progress.begin_step(number);
        const StepResult result = executor.compute_gradients(views, {});
        progress.end_step();
        take_weights(*backend, listener);
        return result.loss;
    }

  private:
    static void take_weights(Backend& backend, GradientListener& listener) {
        const auto& parameters = backend.layout().parameters();
        std::vector<float> values;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const TensorValues gradient = backend.gradient(i);
            values.resize(static_cast<std::size_t>(parameters[i].elements));
            convert<float>(gradient.bytes, gradient.dtype, values);
            listener.take_weight(i, parameters[i].layer, values);
        }
    }

    const BackendFactory& make_backend_;
    const std::atomic<bool>& stop_;
    std::FILE* log_;
    EvaluationInputs inputs_;
    std::vector<Sequence> sequences_;
    std::int64_t tokens_ = 0;
};

}  // namespace

std::string_view name_of(GradientOf of) {
    switch (of) {
        case GradientOf::kKeys:
            return "keys";
        case GradientOf::kValues:
            return "values";
        case GradientOf::kWeights:
            return "weights";
    }
    return "";
}

double GradientSums::cosine() const {
    return product / std::sqrt(dense * sparse);
}
double GradientSums::norm_ratio() const {
    return std::sqrt(sparse / dense);
}
double GradientSums::relative_error() const {
    return std::sqrt(difference / dense);
}
void GradientSums::add(double of_dense, double of_sparse) {
    product += of_dense * of_sparse;
    dense += of_dense * of_dense;
    sparse += of_sparse * of_sparse;
    difference += (of_sparse - of_dense) * (of_sparse - of_dense);
}
GradientSums& GradientSums::operator+=(const GradientSums& other) {
    product += other.product;
    dense += other.dense;
    sparse += other.sparse;
    difference += other.difference;
    return *this;
}

std::int64_t gradient_reference_bytes(const EvaluationOptions& options, const schedule::Plan& dense) {
    const std::int64_t tokens = options.sequences * dense.run.context_tokens;
    const std::int64_t values = dense.model.parameters() + 2 * dense.model.layers * tokens * dense.model.kv_width();
    return values * static_cast<std::int64_t>(sizeof(float));
}

GradientErrors run_gradient_error(const EvaluationOptions& options, const schedule::Plan& dense,
                                  const std::vector<schedule::Plan>& sparse, const BackendFactory& make_backend,
                                  const std::atomic<bool>& stop, std::FILE* log) {
    GradientRun run(options, dense, make_backend, stop, log);
    const std::int64_t steps = 1 + std::ssize(sparse);
    GradientErrors errors;
    errors.tokens = run.tokens();
    try {
        Reference reference;
        reference.values.reserve(static_cast<std::size_t>(gradient_reference_bytes(options, dense)) / sizeof(float));
        Recorder recorder(reference);
        errors.dense_loss = run.step(dense, 1, steps, recorder);
        say(log, "dense: loss {:.4f}\n", errors.dense_loss);
        for (std::size_t i = 0; i < sparse.size(); ++i) {
            Comparer comparer(reference, dense.model.layers);
            const std::int64_t pages = sparse[i].run.top_k;
            errors.losses.push_back(run.step(sparse[i], static_cast<std::int64_t>(i) + 2, steps, comparer));
            const std::vector<GradientError> rows = comparer.rows(pages);
            errors.rows.insert(errors.rows.end(), rows.begin(), rows.end());
            say(log, "{} pages: loss {:.4f}\n", pages, errors.losses.back());
        }
    } catch (const Interrupted&) {
        errors.interrupted = true;
        say(log, "stopped after {} of {} numbers of pages\n", errors.losses.size(), sparse.size());
    }
    return errors;
}

}  // namespace oomb::trainer
