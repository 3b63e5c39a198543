#include "runtime/schedule/optimizer_schedule.hpp"

#include "runtime/schedule/generator_parts.hpp"

namespace oomb::schedule {
namespace {

using enum RegionName;

// Every array of a shard begins at a multiple of the region alignment in any accumulator type.
constexpr std::int64_t kShardUnit = kRegionAlignment_bytes / 4;

Operation make(Kind kind, std::int64_t shard, Engine engine, Cost cost) {
    Operation operation;
    operation.id = {.phase = Phase::kOptimizer, .kind = kind, .part = static_cast<std::uint32_t>(shard)};
    operation.engine = engine;
    operation.cost = cost;
    return operation;
}

// The ring's life begins with the first fetch and ends with the last store.
class ShardOperations {
  public:
    ShardOperations(const StepShape& step, OperationSink& sink)
        : step_(step), shards_(optimizer_shards(step)), sink_(sink) {}

    void emit_all() {
        for (std::int64_t shard = 0; shard < shards_.count; ++shard) {
            if (shard < shards_.resident) {
                emit_update(shard, write(kMoments));
                continue;
            }
            const bool first = shard == shards_.resident, last = shard + 1 == shards_.count;
            emit_copy(Kind::kFetchState, Engine::kHostToDevice, shard,
                      {read(kHostStates, home(shard)), ring(shard, Access::kWrite, first, false)});
            emit_update(shard, ring(shard, Access::kWrite, false, false));
            emit_copy(Kind::kStoreState, Engine::kDeviceToHost, shard,
                      {ring(shard, Access::kRead, false, last), write(kHostStates, home(shard))});
        }
    }

  private:
    std::int32_t home(std::int64_t shard) const { return static_cast<std::int32_t>(shard - shards_.resident); }
    RegionUse ring(std::int64_t shard, Access access, bool begins, bool ends) const {
        return {kOptimizerShard, static_cast<std::int32_t>(home(shard) % shards_.ring_slots()), access, begins, ends};
    }

    void emit_copy(Kind kind, Engine engine, std::int64_t shard, InlineVector<RegionUse, 8> regions) {
        Operation copy = make(kind, shard, engine, CopyCost{shards_.slot_bytes(), 0});
        copy.regions = regions;
        sink_.take(copy);
    }

    // Gradient and states are read, states and the weights of the compute type written.
    void emit_update(std::int64_t shard, RegionUse states) {
        const std::int64_t sum = step_.accumulator_bytes();
        const std::int64_t bytes =
            sum * (1 + 2 * shards_.arrays) + step_.compute_bytes() * (shards_.has_master() ? 1 : 2);
        Operation update =
            make(Kind::kOptimizer, shard, Engine::kCompute, ElementwiseCost{shards_.size(shard) * bytes});
        update.regions = {read(kGradients), read(kScalars), states, write(kWeights)};
        if (shards_.has_master() && shard < shards_.resident) {
            update.regions.push_back(write(kMasterWeights));
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
    // Cut evenly: the last shard would else be short, and its room on the host is as large as the others'.
    const std::int64_t least = divide_up(shards.parameters, divide_up(shards.parameters, run.shard_parameters));
    shards.elements = divide_up(least, kShardUnit) * kShardUnit;
    shards.count = divide_up(shards.parameters, shards.elements);
    shards.resident = run.resident_shards.of(shards.count);
    shards.arrays = run.compute == run.accumulator ? 2 : 3;
    shards.element_bytes = step.accumulator_bytes();
    return shards;
}

void generate_optimizer(const StepShape& step, OperationSink& sink) {
    const std::int64_t gradient_bytes = step.model().parameters() * step.accumulator_bytes();
    Operation norm = make(Kind::kGradientNorm, 0, Engine::kCompute, ElementwiseCost{gradient_bytes});
    norm.regions = {read(kGradients), write(kScalars)};
    sink.take(norm);
    ShardOperations(step, sink).emit_all();
}

}  // namespace oomb::schedule
