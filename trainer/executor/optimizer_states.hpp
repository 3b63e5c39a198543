#pragma once
// Where the optimizer's states lie: m, v and master weights (or their remainders) of a shard, at home or in the slot
// that it was fetched to. The same on every device. A is the accumulator type.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/optimizer.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "trainer/executor/backend.hpp"
#include "trainer/executor/planned_memory.hpp"

namespace oomb::trainer {

enum class StateArray : std::uint8_t { kM, kV, kMaster };
constexpr StateArray array_of(Moment which) {
    return which == Moment::kM ? StateArray::kM : StateArray::kV;
}

// [OptimizerShards::size(shard)] each.
template <class A>
struct ShardStates {
    A* m = nullptr;
    A* v = nullptr;
    A* master = nullptr;                  // null where they are split, or the weights are in the accumulator type
    std::uint16_t* remainders = nullptr;  // of split master weights, else null
};

// For an optimizer operation: its part is the shard.
template <class A>
ShardStates<A> states_of(PlannedMemory& memory, const issue::IssuedOperation& issued,
                         const schedule::OptimizerShards& shards) {
    using enum schedule::RegionName;
    const std::int64_t shard = issued.operation.id.part;
    ShardStates<A> states;
    std::byte* masters = nullptr;
    if (shard >= shards.resident) {
        std::byte* slot = memory.write<std::byte>(issued, kOptimizerShard, shards.slot_bytes());
        states.m = reinterpret_cast<A*>(slot);
        states.v = states.m + shards.elements;
        masters = slot + 2 * shards.elements * shards.moment_bytes;
    } else {
        const std::int64_t first = shards.first(shard), resident = shards.resident_elements();
        states.m = memory.write<A>(issued, kMoments, 2 * resident) + first;
        states.v = states.m + resident;
        if (shards.has_master()) {
            masters = memory.write<std::byte>(issued, kMasterWeights, resident * shards.master_bytes) +
                      first * shards.master_bytes;
        }
    }
    if (shards.splits_master()) {
        states.remainders = reinterpret_cast<std::uint16_t*>(masters);
    } else if (shards.has_master()) {
        states.master = reinterpret_cast<A*>(masters);
    }
    return states;
}

// From outside of operations, while idle: an array of a shard at home, in HBM for the resident ones. E is A, or
// std::uint16_t for kMaster of split masters.
template <class E>
E* state_at_home(const PlannedMemory& memory, const schedule::OptimizerShards& shards, StateArray array,
                 std::int64_t shard) {
    using enum schedule::RegionName;
    const auto which = static_cast<std::int64_t>(array);
    if (shard >= shards.resident) {
        std::byte* slot = memory.idle<std::byte>(kHostStates) + (shard - shards.resident) * shards.slot_bytes();
        return reinterpret_cast<E*>(slot + which * shards.elements * shards.moment_bytes);
    }
    E* start = array == StateArray::kMaster ? memory.idle<E>(kMasterWeights)
                                            : memory.idle<E>(kMoments) + which * shards.resident_elements();
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
template <class T, class G>
kernels::AdamWStep<T, G> adamw_operands(const ShardStates<kernels::Accumulator<T>>& states, std::int64_t offset,
                                        std::int64_t count, const ParameterInfo& parameter,
                                        const StepSettings& settings, double gradient_scale, T* weights,
                                        const G* gradient) {
    kernels::AdamWStep<T, G> step{.gradient = gradient,
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
        step.weights_copy = weights;
        if (states.remainders != nullptr) {
            step.remainders = states.remainders + offset;
        } else {
            step.weights = states.master + offset;
        }
    }
    return step;
}

// Sets `weights` to the upper halves of split master weights and returns the remainders; and back.
inline std::vector<std::uint16_t> split_weights(std::span<const float> masters, std::span<BFloat16> weights) {
    std::vector<std::uint16_t> remainders(masters.size());
    for (std::size_t i = 0; i < masters.size(); ++i) {
        const kernels::SplitWeight split = kernels::split_weight(masters[i]);
        weights[i] = split.weight;
        remainders[i] = split.remainder;
    }
    return remainders;
}
inline std::vector<float> join_weights(std::span<const BFloat16> weights, std::span<const std::uint16_t> remainders) {
    std::vector<float> masters(weights.size());
    std::transform(weights.begin(), weights.end(), remainders.begin(), masters.begin(), kernels::join_weight);
    return masters;
}

// A moment of a parameter as a file has it, which promises no alignment. Throws InternalError for another size.
template <class A>
std::vector<A> aligned_moment(const ParameterInfo& parameter, std::span<const std::byte> values) {
    require(std::ssize(values) == parameter.elements * static_cast<std::int64_t>(sizeof(A)),
            "moment of {}: {} bytes for {} elements", parameter.name, values.size(), parameter.elements);
    std::vector<A> aligned(parameter.elements);
    std::memcpy(aligned.data(), values.data(), values.size());
    return aligned;
}

// What gradients of this global norm are multiplied by.
inline double clipping_scale(const StepSettings& settings, double gradient_squares) {
    const double norm = std::sqrt(gradient_squares);
    return settings.max_grad_norm > 0 && norm > settings.max_grad_norm ? settings.max_grad_norm / norm : 1.0;
}

}  // namespace oomb::trainer
