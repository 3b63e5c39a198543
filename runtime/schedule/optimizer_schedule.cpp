#include "runtime/schedule/optimizer_schedule.hpp"

#include "runtime/schedule/generator_parts.hpp"

namespace oomb::schedule {
namespace {

using enum RegionName;

// Every array of a shard begins at a multiple of the region alignment, whatever its type.
std::int64_t shard_unit(const OptimizerShards& shards) {
    return kRegionAlignment_bytes / (shards.splits_master() ? 2 : 4);
}

Operation make(Kind kind, std::int64_t shard, Engine engine, Cost cost) {
    Operation operation;
    operation.id = {.phase = Phase::kOptimizer, .kind = kind, .part = static_cast<std::uint32_t>(shard)};
    operation.engine = engine;
    operation.cost = cost;
    return operation;
}

class ShardOperations {
  public:
    ShardOperations(const StepShape& step, OperationSink& sink)
        : step_(step), shards_(optimizer_shards(step)), sink_(sink) {}

    // Of the shards that find the ring empty, the one that the layer counted from the top brings; the lowest layer
    // brings all that are left.
    void fetch_after(std::int64_t layer) {
        const std::int64_t first = step_.model().layers - 1 - layer;
        const std::int64_t end = layer == 0 ? shards_.ring_slots() : std::min(first + 1, shards_.ring_slots());
        for (std::int64_t i = first; i < end; ++i) {
            emit_fetch(shards_.resident + i);
        }
    }

    void update_all() {
        for (std::int64_t shard = 0; shard < shards_.count; ++shard) {
            if (shard < shards_.resident) {
                emit_update(shard, write(kMoments));
                continue;
            }
            if (home(shard) >= shards_.ring_slots()) {
                emit_fetch(shard);
            }
            emit_update(shard, write(kOptimizerShard, ring_slot(shard)));
            emit_copy(Kind::kStoreState, Engine::kDeviceToHost, shard,
                      {read(kOptimizerShard, ring_slot(shard)), write(kHostStates, home(shard))});
        }
    }

  private:
    std::int32_t home(std::int64_t shard) const { return static_cast<std::int32_t>(shard - shards_.resident); }
    std::int32_t ring_slot(std::int64_t shard) const {
        return static_cast<std::int32_t>(home(shard) % shards_.ring_slots());
    }

    void emit_fetch(std::int64_t shard) {
        emit_copy(Kind::kFetchState, Engine::kHostToDevice, shard,
                  {read(kHostStates, home(shard)), write(kOptimizerShard, ring_slot(shard))});
    }

    void emit_copy(Kind kind, Engine engine, std::int64_t shard, InlineVector<RegionUse, 8> regions) {
        Operation copy = make(kind, shard, engine, CopyCost{shards_.slot_bytes(), 0});
        copy.regions = regions;
        sink_.take(copy);
    }

    // Gradient and states are read, states and weights written; weights are read, too, unless the states have them
    // whole. The gradients of vectors count as those of matrices.
    void emit_update(std::int64_t shard, RegionUse states) {
        const bool reads_weights = !shards_.has_master() || shards_.splits_master();
        const std::int64_t bytes =
            step_.gradient_bytes() + 2 * shards_.state_bytes() + step_.compute_bytes() * (reads_weights ? 2 : 1);
        Operation update =
            make(Kind::kOptimizer, shard, Engine::kCompute, ElementwiseCost{shards_.size(shard) * bytes});
        update.regions = {read(kGradients), read(kScalars), states, write(kWeights)};
        if (shards_.has_master() && shard < shards_.resident) {
            update.regions.push_back(write(kMasterWeights));
        }
        if (step_.vectors_apart()) {
            update.regions.push_back(read(kVectorGradients));
        }
        sink_.take(update);
    }

    const StepShape& step_;
    const OptimizerShards shards_;
    OperationSink& sink_;
};

}  // namespace

OptimizerShards optimizer_shards(const StepShape& step) {
    const RunConfiguration& run = step.run();
    OptimizerShards shards;
    if (!run.optimizer) {
        return shards;
    }
    shards.parameters = step.model().parameters();
    shards.moment_bytes = step.accumulator_bytes();
    if (run.compute != run.accumulator) {
        shards.master_bytes = step.accumulator_bytes() - (run.split_masters ? step.compute_bytes() : 0);
    }
    // Cut evenly: the last shard would else be short, and its room on the host is as large as the others'.
    const std::int64_t least = divide_up(shards.parameters, divide_up(shards.parameters, run.shard_parameters));
    shards.elements = divide_up(least, shard_unit(shards)) * shard_unit(shards);
    shards.count = divide_up(shards.parameters, shards.elements);
    shards.resident = run.resident_shards.of(shards.count);
    return shards;
}

void fetch_first_shards(const StepShape& step, std::int64_t layer, OperationSink& sink) {
    ShardOperations(step, sink).fetch_after(layer);
}

void generate_optimizer(const StepShape& step, OperationSink& sink) {
    if (step.run().forward_only) {
        return;
    }
    Operation norm = make(Kind::kGradientNorm, 0, Engine::kCompute, ElementwiseCost{step.all_gradient_bytes()});
    norm.regions = {read(kGradients), write(kScalars)};
    if (step.vectors_apart()) {
        norm.regions.push_back(read(kVectorGradients));
    }
    sink.take(norm);
    ShardOperations(step, sink).update_all();
}

}  // namespace oomb::schedule
