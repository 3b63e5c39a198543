#pragma once
// Where the optimizer's states lie: m, v and master weights of a shard, at home or in the slot that it was fetched to.
// The same on every device. A is the accumulator type.

#include <cmath>

#include "kernels/optimizer.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "trainer/executor/backend.hpp"
#include "trainer/executor/planned_memory.hpp"

namespace oomb::trainer {

enum class StateArray : std::uint8_t { kM, kV, kMaster };

// [OptimizerShards::size(shard)] each.
template <class A>
struct ShardStates {
    A* m = nullptr;
    A* v = nullptr;
    A* master = nullptr;  // null where the weights themselves are in the accumulator type
};

// For an optimizer operation: its part is the shard.
template <class A>
ShardStates<A> states_of(PlannedMemory& memory, const issue::IssuedOperation& issued,
                         const schedule::OptimizerShards& shards) {
    using enum schedule::RegionName;
    const std::int64_t shard = issued.operation.id.part;
    if (shard >= shards.resident) {
        A* slot = memory.write<A>(issued, kOptimizerShard, shards.arrays * shards.elements);
        return {slot, slot + shards.elements, shards.has_master() ? slot + 2 * shards.elements : nullptr};
    }
    const std::int64_t first = shards.first(shard), resident = shards.resident_elements();
    A* moments = memory.write<A>(issued, kMoments, 2 * resident);
    A* master = shards.has_master() ? memory.write<A>(issued, kMasterWeights, resident) + first : nullptr;
    return {moments + first, moments + resident + first, master};
}

// From outside of operations, while idle: an array of a shard at home, in HBM for the resident ones.
template <class A>
A* state_at_home(const PlannedMemory& memory, const schedule::OptimizerShards& shards, StateArray array,
                 std::int64_t shard) {
    using enum schedule::RegionName;
    const auto which = static_cast<std::int64_t>(array);
    if (shard >= shards.resident) {
        return memory.idle<A>(kHostStates) + ((shard - shards.resident) * shards.arrays + which) * shards.elements;
    }
    A* start = array == StateArray::kMaster ? memory.idle<A>(kMasterWeights)
                                            : memory.idle<A>(kMoments) + which * shards.resident_elements();
    return start + shards.first(shard);
}

// The parts of parameters [first, first + count) by shard: visit(shard, first of the part, elements of the part).
template <class Visit>
void for_each_shard(const schedule::OptimizerShards& shards, std::int64_t first, std::int64_t count,
                    const Visit& visit) {
    for (const std::int64_t end = first + count; first < end;) {
        const std::int64_t shard = first / shards.elements;
        const std::int64_t part = std::min(end, shards.first(shard) + shards.elements) - first;
        visit(shard, first, part);
        first += part;
    }
}

// AdamW's operands for `count` elements of one parameter, which begin `offset` elements into the shard. `weights` and
// `gradient` point at the first of them.
template <class T>
kernels::AdamWStep<T> adamw_operands(const ShardStates<kernels::Accumulator<T>>& states, std::int64_t offset,
                                     std::int64_t count, const ParameterInfo& parameter, const StepSettings& settings,
                                     double gradient_scale, T* weights, const kernels::Accumulator<T>* gradient) {
    kernels::AdamWStep<T> step{.gradient = gradient,
                               .m = states.m + offset,
                               .v = states.v + offset,
                               .count = count,
                               .step = settings.step,
                               .learning_rate = settings.learning_rate,
                               .beta1 = settings.beta1,
                               .beta2 = settings.beta2,
                               .eps = settings.epsilon,
                               .weight_decay = parameter.decays ? settings.weight_decay : 0.0,
                               .gradient_scale = gradient_scale};
    if constexpr (std::is_same_v<T, kernels::Accumulator<T>>) {
        step.weights = weights;
    } else {
        step.weights = states.master + offset;
        step.weights_copy = weights;
    }
    return step;
}

// What gradients of this global norm are multiplied by.
inline double clipping_scale(const StepSettings& settings, double gradient_squares) {
    const double norm = std::sqrt(gradient_squares);
    return settings.max_grad_norm > 0 && norm > settings.max_grad_norm ? settings.max_grad_norm / norm : 1.0;
}

}  // namespace oomb::trainer
