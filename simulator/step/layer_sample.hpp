#pragma once
// A step with lists of pages, from some of its layers.

#include "runtime/issue/issuer.hpp"
#include "simulator/step/clock.hpp"

namespace oomb::simulator {

// Stands between the generator and the issuer of schedule::of_fewer_layers(plan, kLayers). In every pass over a chunk
// its lowest and highest layers stand for themselves, those between, the sample, for all the others too: no two layers
// have the same lists, but they are alike. What is left out has used the ring in the meantime, so before and after the
// sample the caches are empty, and the layers on either side of a turn still find what the other side brought.
class LayerSample : public schedule::OperationSink {
  public:
    static constexpr std::int64_t kLowest = 1, kSample = 2, kHighest = 1, kLayers = kLowest + kSample + kHighest;
    // Of a step that is told from its sample compute waits for the host no longer: the host has no layers to come to
    // rest in, how far it is ahead depends on all of them.
    static constexpr double kMostHostShare = 0.02;

    // Of `whole`, the step in all its layers. All outlive the sample; `walk` hands to the issuer, and that to the
    // clock.
    LayerSample(const schedule::StepShape& whole, schedule::OperationSink& walk, issue::Issuer& issuer,
                const Clock& clock)
        : whole_(whole), walk_(walk), issuer_(issuer), clock_(clock) {}

    void take(const schedule::Operation& operation) override;
    std::int64_t left_out(const schedule::Repetition& repetition) override;

    // The sums of the clock for all layers, once the step is through.
    Prediction of_all() const;

  private:
    const schedule::StepShape& whole_;
    schedule::OperationSink& walk_;
    issue::Issuer& issuer_;
    const Clock& clock_;
    double begun_ = 0.0;          // seconds of the compute engine
    Prediction before_, sample_;  // sums at its begin; what it took, over all passes
};

}  // namespace oomb::simulator
