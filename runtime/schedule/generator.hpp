#pragma once
// The schedule: one piece of code that lists the operations of a training step in program order. Trainer, planner and
// profiler all read this list. Nothing is stored: operations go to the sink one at a time.

#include "runtime/schedule/chunk_policy.hpp"
#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

struct KeyPart;

// Slots of layer inputs, attention outputs and log-sum-exps. One per layer, for they wait from the chunk's forward to
// its backward; with held chunks that many sets of them; in an evaluation, where nothing waits, one. With inputs and
// outputs of all chunks kept a ring of two, layer l in slot l modulo 2: the copies to and from the kept pages run
// beside the neighbouring layer.
std::int32_t activation_slots(const StepShape& step);
// Slots of linear QKV, residual stream and gate and up: one per layer and held chunk, where they live in the whole
// step; without held chunks one, which begins and ends with each layer.
std::int32_t held_slots(const StepShape& step);

// Operations of one sequence: fill of chunks 0 .. n-2, then forward and backward of chunks n-1 .. 0. In an evaluation:
// forward of chunks 0 .. n-1, each to its losses.
// An optimizer step is one or more sequences (gradient accumulation) and then the optimizer's phase.
class SequenceGenerator {
  public:
    // `step` and `sink` outlive the generator. Sequence `sequence` of the `sequences` of an optimizer step: the first
    // clears the parameter gradients before, the last fetches the first shards of the optimizer's states.
    SequenceGenerator(const StepShape& step, std::int64_t sequence, std::int64_t sequences, OperationSink& sink);

    void generate();

    // The pieces of generate(), for planners that need one template instead of all copies.
    void fill_chunk(std::int64_t chunk);
    void gradient_chunk(std::int64_t chunk);
    void evaluate_chunk(std::int64_t chunk);

  private:
    struct Keys;  // the keys that one attention operation reads, or one copy brings

    // generator.cpp
    Operation make(Kind kind, std::int64_t layer, std::int64_t part, Cost cost) const;
    void emit(const Operation& operation) { sink_.take(operation); }
    void clear_sums();
    void begin_chunk(Phase phase, std::int64_t chunk);
    void load_tokens();
    void emit_linear(Kind kind, std::int64_t layer, GemmCost cost, InlineVector<RegionUse, 8> regions,
                     std::uint32_t part = 0);
    void emit_pass(Kind kind, std::int64_t layer, std::int64_t bytes, InlineVector<RegionUse, 8> regions);
    void emit_page_copies(Kind kind, Engine engine, std::int64_t layer, std::int64_t part, PageUse use,
                          const Keys& keys);
    // Before attention over lists: what they name if they are made, else what those of the chunk before let expect, or
    // where there are none the latest pages.
    void prefetch(std::int64_t layer, PageClass page_class, bool lists_are_made);
    RegionUse vector_gradients() const;
    std::int32_t slot(std::int64_t layer) const;
    RegionUse in_slot(RegionUse use, std::int64_t layer) const;
    std::int32_t token_slot() const { return static_cast<std::int32_t>(chunk_ % 2); }
    PageSet own_pages(PageClass page_class, std::int64_t layer) const;
    PageSet kept_page(std::int64_t layer) const;
    AttentionCost attention_cost(const Keys& keys, bool backward) const;
    GemmCost gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool accumulates = false) const;
    Keys chunk_keys(std::int64_t layer, PageClass page_class) const;
    Keys keys_of(const KeyPart& part, std::int64_t layer, PageClass page_class) const;
    Keys group_keys(std::int64_t layer, std::int64_t group, PageClass page_class) const;
    // Iterations that the sink leaves out, the next one first.
    std::int64_t left_out_layers(std::int64_t layer, int step);
    std::int64_t left_out_windows(std::int64_t layer, std::int64_t part, std::int64_t parts);
    // The history in parts: windows, or with lists groups of query pages.
    std::int64_t history_parts(std::int64_t layer) const;
    Keys history_keys(std::int64_t layer, std::int64_t part, PageClass page_class) const;

    // generator_forward.cpp
    void forward_chunk();
    ForwardPass pass_over(std::int64_t layer) const;
    void input_norm(std::int64_t layer);
    void project_qkv(std::int64_t layer, std::uint32_t projects, std::uint32_t rotates);
    std::int64_t width_of(std::uint32_t parts) const;
    void select_pages(std::int64_t layer);
    void attend(std::int64_t layer, bool fetches_own, bool queries_stay);
    void attend_part(std::int64_t layer, std::int64_t part, const Keys& keys, bool ends_queries);
    void copy_activation(Kind kind, std::int64_t layer);
    void gate_up(std::int64_t layer, bool for_backward);
    void post_norm(std::int64_t layer);
    void swiglu(std::int64_t layer, bool for_backward);
    void mlp_down(std::int64_t layer, RegionUse output, bool for_backward);

    // generator_evaluation.cpp
    void measure_recall(std::int64_t layer);
    void evaluate_loss();
    void evaluate_loss_tile(std::int64_t tile, std::int64_t tiles);
    void release_history();

    // generator_backward.cpp
    void loss();
    void loss_tile(std::int64_t tile, std::int64_t tiles);
    void emit_tile(Kind kind, std::int64_t tile, Cost cost, InlineVector<RegionUse, 8> regions);
    std::int64_t rows_of_tile(std::int64_t tile) const;
    void backward_layer(std::int64_t layer);
    void mlp_backward(std::int64_t layer, bool repeats_norm);
    void output_backward(std::int64_t layer);
    void repeat_attention(std::int64_t layer, const BackwardPass& pass);
    void repeat_queries(std::int64_t layer, std::uint32_t projects, bool normed_stays);
    void attention_backward(std::int64_t layer);
    void attend_backward_part(std::int64_t layer, std::int64_t part, const Keys& kv, const Keys& gradients, bool last);
    void attend_backward_history(std::int64_t layer, std::int64_t part);
    void qkv_backward(std::int64_t layer, bool repeats_norm);
    void release_pages(std::int64_t layer);

    const StepShape& step_;
    OperationSink& sink_;
    std::int64_t sequence_;
    std::int64_t sequences_;
    std::int64_t slots_;
    Phase phase_ = Phase::kFill;
    std::int64_t chunk_ = 0;
    ChunkPolicy policy_;
    std::int64_t rows_ = 0;  // tokens of the current chunk
};

}  // namespace oomb::schedule
