#pragma once
// What the executor needs of a device. There is one executor; a device is a backend.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/device_reading.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/page_recall.hpp"
#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/plan.hpp"
#include "trainer/model/parameter_layout.hpp"
#include "trainer/weights/shard_writer.hpp"

namespace oomb::trainer {

// Numbers of an optimizer step that its operations read.
struct StepSettings {
    std::int64_t step = 1;  // 1 for the first: AdamW's bias correction
    double learning_rate = 0.0;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.0;   // not on norms and biases
    double max_grad_norm = 0.0;  // 0 = no clipping
    double loss_scale = 1.0;     // 1 / valid targets of the whole optimizer step
};

// Sums over an optimizer step, from the scalars region.
struct StepSums {
    double loss = 0.0;  // sum of token cross-entropies, not scaled
    std::int64_t valid_targets = 0;
    double gradient_squares = 0.0;
};

// The first NaN or infinity among weights, then gradients; empty = none.
struct NonFinite {
    std::string tensor;  // "gradient of model.layers.0.mlp.up_proj.weight"
    std::int64_t index = 0;
};

// When an operation ran and what it moved. Seconds are since the backend's start.
struct OperationRecord {
    const schedule::Operation* operation = nullptr;  // valid during the call
    double begin_seconds = 0.0;
    double end_seconds = 0.0;
    std::int64_t bytes = 0;  // issue::movement_of: 0 for operations that copy nothing between the tiers
    std::int64_t pages = 0;
};

// What a copy engine did since the start.
struct CopyTotals {
    std::int64_t bytes = 0;
    double seconds = 0.0;  // the engine was busy
};

// Gradients at the outputs of a layer's K and V projections, of a chunk: [rows, K/V width] each. Valid during the call.
struct KvGradients {
    std::span<const float> keys, values;
};

// What AdamW keeps of a parameter beside its weight: running means of the gradient, and of its square.
enum class Moment : std::uint8_t { kM, kV };

class Backend : public issue::IssuedSink, public issue::PageListSource {
  public:
    // Operations arrive in program order; the backend may run them later, each engine in order, each operation after
    // its waits. An operation that fails is reported by wait_idle().
    void take(issue::IssuedOperation operation) override = 0;
    // Blocks until everything taken has run; throws what an operation threw.
    virtual void wait_idle() = 0;

    // Not supported: no plan with lists is given to such a backend.
    std::vector<std::int32_t> page_lists(std::int64_t /*layer*/, std::int64_t /*first*/, std::int64_t /*count*/,
                                         issue::Ticket /*stored*/) override {
        fail<InternalError>("backend: makes no page lists");
    }

    // The following are called only while idle.
    virtual void set_step(const StepSettings& settings) = 0;
    // An optimizer step begins and ends: for profilers, which watch from outside.
    virtual void begin_step(std::int64_t /*step*/) {}
    virtual void end_step() {}
    // Token and target numbers of the next sequence, equal lengths up to the plan's context.
    virtual void set_sequence(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) = 0;
    // Parameters by their place in layout(). Values come in any stored type and are converted.
    virtual const ParameterLayout& layout() const = 0;
    virtual void set_weight(std::size_t parameter, std::span<const std::byte> values, DType type) = 0;
    // In the type they are held in; valid until the next call.
    virtual TensorValues weight(std::size_t parameter) = 0;
    virtual TensorValues gradient(std::size_t parameter) = 0;
    // [elements of the parameter] in the accumulator type, wherever they lie; what moment() returns is valid until the
    // next call. Of a plan with an optimizer.
    virtual TensorValues moment(Moment which, std::size_t parameter) = 0;
    virtual void set_moment(Moment which, std::size_t parameter, std::span<const std::byte> values) = 0;
    virtual StepSums sums() const = 0;
    // Of an evaluation: the loss of each of the first `tokens` targets of the sequence, 0 for ignored ones. As precise
    // as the accumulator type.
    virtual std::vector<double> token_losses(std::int64_t tokens) const = 0;
    // Of an evaluation that measures recall: [layers, budgets], over the sequence.
    virtual std::vector<RecallSums> recall() const { fail<InternalError>("backend: measures no recall"); }
    virtual NonFinite find_non_finite() const = 0;
    // Seconds of compute per phase since the start.
    virtual double phase_seconds(schedule::Phase phase) const = 0;
    // End of the highest byte touched so far, rounded up to the region alignment.
    virtual std::int64_t touched_bytes(Tier tier) const = 0;
    // Most bytes that libraries held at once outside the arenas.
    virtual std::int64_t library_peak_bytes() const = 0;

    // Algorithms and graphs that libraries have made for shapes since the start. A step whose sequences have the plan's
    // context makes none; a shape that a shorter one brings is prepared when it comes.
    virtual std::int64_t library_plans() const { return 0; }
    // What preparing took, before the backend was there.
    virtual double preparation_seconds() const { return 0.0; }

    // Fills all weights where they lie, with the distribution of random_values() but numbers of the device's own.
    // False: not supported, the caller sets them one by one.
    virtual bool randomize_weights(std::uint64_t /*seed*/) { return false; }

    // What a run reports. Only while idle.
    virtual std::string device_name() const { return "cpu"; }
    // Of Engine::kHostToDevice or kDeviceToHost.
    virtual CopyTotals copied(schedule::Engine /*engine*/) const { return {}; }
    // Since the start: the compute engine had an operation at its head that could not start because of a copy.
    virtual double exposed_copy_seconds() const { return 0.0; }
    // Most GPU memory of this process as the driver counts it. Nothing where there is no driver or it does not say.
    virtual std::optional<std::int64_t> driver_peak_bytes() const { return std::nullopt; }
    virtual DeviceReading device_reading() const { return {}; }

    // Called after each operation, from the thread that ran it.
    std::function<void(const schedule::Operation&)> on_done;
    // Called once per operation, in the order of completion within an engine, from one thread at a time. Null: nobody
    // listens, and the backend takes no time stamps of single operations for it. Set while idle.
    std::function<void(const OperationRecord&)> on_timed;
    // Called with what each rope_backward has made, in the order in which they run; the device is waited for each time.
    // Null: nobody looks, and nothing waits. Set while idle.
    std::function<void(const schedule::Operation&, const KvGradients&)> on_kv_gradients;
};

}  // namespace oomb::trainer
