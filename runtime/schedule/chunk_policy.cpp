#include "runtime/schedule/chunk_policy.hpp"

namespace oomb::schedule {
namespace {

constexpr std::uint32_t kKeyAndValueParts = kKeyPart | kValuePart;

}  // namespace

// Chunk n - 1 - s is in set s as long as there are sets; the earlier ones take turns in set 0.
ChunkPolicy::ChunkPolicy(const StepShape& step, std::int64_t chunk) : step_(&step), chunk_(chunk) {
    const std::int64_t from_end = step.chunks() - 1 - chunk;
    set_ = from_end < step.held_chunks() ? from_end : 0;
}

// Nobody reads the last layer of a fill beyond its K/V, unless something of it is kept or held.
ForwardPass ChunkPolicy::fill(std::int64_t layer) const {
    ForwardPass pass;
    pass.keeps = kept();
    pass.attends = !is_last(layer) || pass.keeps || held_since_fill();
    pass.rotates = kKeyAndValueParts | (pass.attends ? kQueryPart : 0);
    pass.projects = pass.rotates;
    pass.gate_up = !is_last(layer) || held_since_fill();
    pass.down = !is_last(layer);
    return pass;
}

// Backward computes the rest of the last layer, nobody else reads it.
ForwardPass ChunkPolicy::forward(std::int64_t layer) const {
    ForwardPass pass;
    pass.keeps = kept();
    pass.attends = true;
    pass.rotates = kQueryPart | (filled() ? 0 : kKeyAndValueParts);
    pass.projects = pass.rotates | (held() ? parts_for_backward() : 0);
    pass.gate_up = !is_last(layer) || held();
    pass.down = !is_last(layer);
    return pass;
}

BackwardPass ChunkPolicy::backward(std::int64_t /*layer*/) const {
    return {.loads = kept(), .repeats_mlp = !held(), .projects = held() ? 0 : parts_for_backward()};
}

}  // namespace oomb::schedule
