#pragma once
// What becomes of the activations of one chunk: what each pass over a layer computes, stores, keeps and repeats.

#include <cstdint>

#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

// One layer in the fill or in the forward of the gradient phase.
struct ForwardPass {
    std::uint32_t projects = 0;  // parts of linear_qkv (kQueryPart ...); 0: none of it
    std::uint32_t rotates = 0;   // parts of rope: queries for attention, keys and values into their pages
    bool loads = false;          // attention output and log-sum-exp come from their page
    bool attends = false;
    bool selects = false;   // attention makes the lists of its query pages
    bool keeps = false;     // copies to the kept page
    bool gate_up = false;   // output projection, gate and up
    bool down = false;      // SwiGLU and the next layer's input
    bool measures = false;  // recall of the pages before the chunk, once attention has run
};

// One layer in backward: what it needs besides the slots.
struct BackwardPass {
    bool loads = false;          // layer input, with what else is kept, comes from its page
    std::uint32_t projects = 0;  // parts of linear_qkv that are repeated
    bool attends = false;        // forward attention is repeated, with these queries
    bool selects = false;        // and makes the lists
    bool repeats_mlp = false;    // output projection, gate and up
};

class ChunkPolicy {
  public:
    // `step` outlives the policy.
    ChunkPolicy(const StepShape& step, std::int64_t chunk);

    // Its K/V come from a fill: every chunk but the last.
    bool filled() const { return chunk_ + 1 < step_->chunks(); }
    // Its activations lie in a held set from its forward, or its fill, to its backward.
    bool held() const { return step_->held_chunks() > 0; }
    bool held_since_fill() const { return filled() && set_ > 0; }
    // The set of slots that it computes in, 0 for all that are not held since their fill.
    std::int64_t set() const { return set_; }
    // What is kept of this layer is in a page.
    bool kept(std::int64_t layer) const { return layer < kept_layers_; }
    // Both compute, store and load the same in every layer; of lists nothing is said.
    bool computes_as(const ChunkPolicy& other) const {
        return filled() == other.filled() && held_since_fill() == other.held_since_fill() &&
               kept_layers_ == other.kept_layers_;
    }
    // The gradient phase runs the chunk forward.
    bool runs_forward() const;

    ForwardPass fill(std::int64_t layer) const;
    ForwardPass forward(std::int64_t layer) const;
    ForwardPass evaluation(std::int64_t layer) const;
    BackwardPass backward(std::int64_t layer) const;

  private:
    bool input_kept(std::int64_t layer) const { return kept(layer) && keeps_input(step_->run().keep); }
    bool output_kept(std::int64_t layer) const { return kept(layer) && keeps_output(step_->run().keep); }
    // Lists are made by the attention of a chunk and layer that runs first.
    bool fill_attends(std::int64_t layer) const {
        return filled() && (!is_last(layer) || output_kept(layer) || held_since_fill());
    }
    bool is_last(std::int64_t layer) const { return layer + 1 == step_->model().layers; }
    // Backward of Q/K norm needs K before the norm beside Q.
    std::uint32_t parts_for_backward() const { return kQueryPart | (step_->model().qk_norm ? kKeyPart : 0); }

    const StepShape* step_;
    std::int64_t chunk_;
    std::int64_t set_;
    std::int64_t kept_layers_;  // the first ones
};

}  // namespace oomb::schedule
