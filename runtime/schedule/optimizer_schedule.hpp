#pragma once
// The optimizer's phase: AdamW shard by shard, so that its states need not all lie in HBM.
//
// The parameters, in the order in which they lie in their regions, are cut into shards of equal length; a shard may cut
// through a parameter or hold many. The states of a shard are m, v and, where the compute type is narrower than the
// accumulator, the master weights or, split, their remainders. The first shards have them in HBM. Those of the others
// come from the host to a slot of a ring, are updated there and go back: the fetch of a shard runs beside the update
// and the store of the ones before. The ring shares its bytes with nothing, so the fetches of the first shards, which
// find it empty, already run in the backward of the step's last chunk, behind its compute.

#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

inline constexpr std::int64_t kMostShardSlots = 3;  // one on its way in, one in use, one on its way out

struct OptimizerShards {
    std::int64_t parameters = 0;  // of the model; 0 without an optimizer
    std::int64_t elements = 0;    // parameters of every shard but the last, a multiple of 64 (split masters: 128)
    std::int64_t count = 0;
    std::int64_t resident = 0;      // shards whose states are in HBM, the first ones
    std::int64_t moment_bytes = 0;  // of an element of m, and of v: the accumulator type
    std::int64_t master_bytes = 0;  // of a master weight, 2 where it is split; 0: the weights are the masters

    std::int64_t on_host() const { return count - resident; }
    std::int64_t first(std::int64_t shard) const { return shard * elements; }
    std::int64_t size(std::int64_t shard) const { return std::min(elements, parameters - first(shard)); }
    std::int64_t resident_elements() const { return std::min(resident * elements, parameters); }
    std::int64_t state_bytes() const { return 2 * moment_bytes + master_bytes; }  // of a parameter
    // The states of a shard at home on the host and in the ring: m, v and master weights, `elements` of each, one
    // behind the other. They travel whole, the few elements that the last shard does not use included.
    std::int64_t slot_bytes() const { return elements * state_bytes(); }
    std::int64_t ring_slots() const { return std::min(kMostShardSlots, on_host()); }
    // The store of this shard, whose home is the host, runs beside a fetch that comes after it in the schedule: that
    // for the slot of the store before it.
    bool store_meets_fetch(std::int64_t shard) const { return shard > resident && shard + ring_slots() - 1 < count; }
    bool has_master() const { return master_bytes > 0; }
    bool splits_master() const { return has_master() && master_bytes < moment_bytes; }
};

// run.resident_shards must not be auto.
OptimizerShards optimizer_shards(const StepShape& step);

// The fetches of the first ring_slots() shards whose home is the host, one per call: the backward of the step's last
// chunk calls it after each layer, whose own copies then go first. After layer 0: all that are left.
void fetch_first_shards(const StepShape& step, std::int64_t layer, OperationSink& sink);

// Global gradient norm, then for each shard: fetch_state if its home is the host and it has not been fetched yet,
// optimizer, store_state. Nothing in an evaluation.
void generate_optimizer(const StepShape& step, OperationSink& sink);

}  // namespace oomb::schedule
