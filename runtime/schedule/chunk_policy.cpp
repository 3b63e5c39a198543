#include "runtime/schedule/chunk_policy.hpp"

#include <algorithm>

namespace oomb::schedule {
namespace {

constexpr std::uint32_t kKeyAndValueParts = kKeyPart | kValuePart;

}  // namespace

// Chunk n - 1 - s is in set s as long as there are sets; the earlier ones take turns in set 0.
ChunkPolicy::ChunkPolicy(const StepShape& step, std::int64_t chunk) : step_(&step), chunk_(chunk) {
    const std::int64_t from_end = step.chunks() - 1 - chunk;
    set_ = from_end < step.held_chunks() ? from_end : 0;
    const std::int64_t rank = step.kept_rank(chunk);
    const std::int64_t layers = step.model().layers;
    kept_layers_ = rank < 0 ? 0 : std::clamp<std::int64_t>(step.kept_pages() - rank * layers, 0, layers);
}

bool ChunkPolicy::runs_forward() const {
    return !filled() || !(held_since_fill() || input_kept(0));
}

// Nobody reads the last layer of a fill beyond its K/V, unless its output is kept or it is held.
ForwardPass ChunkPolicy::fill(std::int64_t layer) const {
    ForwardPass pass;
    pass.attends = fill_attends(layer);
    pass.selects = pass.attends && step_->scores_lists(chunk_);
    pass.rotates = kKeyAndValueParts | (pass.attends ? kQueryPart : 0);
    pass.projects = pass.rotates;
    pass.keeps = kept(layer);
    pass.gate_up = !is_last(layer) || held_since_fill();
    pass.down = !is_last(layer);
    return pass;
}

// Backward computes the rest of the last layer, nobody else reads it.
ForwardPass ChunkPolicy::forward(std::int64_t layer) const {
    ForwardPass pass;
    pass.loads = filled() && output_kept(layer);
    pass.attends = !pass.loads;
    pass.selects = pass.attends && !fill_attends(layer) && step_->scores_lists(chunk_);
    pass.rotates = (filled() ? 0 : kKeyAndValueParts) | (pass.attends ? kQueryPart : 0);
    pass.projects = pass.rotates | (held() && pass.attends ? parts_for_backward() : 0);
    pass.keeps = !filled() && kept(layer);
    pass.gate_up = !is_last(layer) || held();
    pass.down = !is_last(layer);
    return pass;
}

ForwardPass ChunkPolicy::evaluation(std::int64_t /*layer*/) const {
    ForwardPass pass;
    pass.projects = pass.rotates = kQueryPart | kKeyAndValueParts;
    pass.attends = pass.gate_up = pass.down = true;
    pass.selects = step_->scores_lists(chunk_);
    pass.measures = step_->measures_recall() && chunk_ > 0;
    return pass;
}

BackwardPass ChunkPolicy::backward(std::int64_t layer) const {
    BackwardPass pass;
    pass.loads = input_kept(layer);
    pass.attends = pass.loads && !output_kept(layer);
    pass.selects = pass.attends && !fill_attends(layer) && !runs_forward() && step_->scores_lists(chunk_);
    // Held activations have linear QKV, unless nothing attended here.
    pass.projects = held() && !kept(layer) ? 0 : parts_for_backward();
    pass.repeats_mlp = !held();
    return pass;
}

}  // namespace oomb::schedule
