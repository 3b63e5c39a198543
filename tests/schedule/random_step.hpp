#pragma once
// Random models and runs for property tests, and sinks that keep what the schedule says.

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::testing {

struct RandomStep {
    ModelShape model;
    RunConfiguration run;
};

// How far a random step may go.
struct RandomLimits {
    std::int64_t layers = 6;
    std::int64_t chunks = 7;
    std::int64_t pages_per_chunk = 6;
    std::vector<std::int64_t> page_tokens = {1, 4, 16, 128};
    bool any_device = true;    // else the CPU
    bool top_k = false;        // half of the runs attend to top-K pages
    bool local = false;        // of the others half to a sliding window, of the run, the model or both
    bool own_kernels = false;  // all on CUDA, and of the kind that --attention-kernels own takes
    bool evaluates = false;    // forward only; then a third of the runs attend to random pages, or measure recall
};

class RandomSteps {
  public:
    explicit RandomSteps(std::uint64_t seed, RandomLimits limits = {}) : random_(seed), limits_(std::move(limits)) {}

    RandomStep next() {
        RandomStep step{model(), run()};
        if (limits_.own_kernels) {
            take_own_kernels(step);
        }
        if (limits_.local && step.run.attention == AttentionMode::kDense && step.run.recall_budgets.empty() && coin()) {
            add_windows(step);
        }
        if (step.run.offload == Offload::kHost) {
            limit_hbm(step);
        }
        return step;
    }

    std::int64_t between(std::int64_t least, std::int64_t most) {
        return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
    }
    bool coin() { return between(0, 1) == 1; }
    template <class T>
    T pick(const std::vector<T>& items) {
        return items[between(0, static_cast<std::int64_t>(items.size()) - 1)];
    }

  private:
    ModelShape model() {
        ModelShape model;
        model.layers = between(1, limits_.layers);
        model.kv_heads = between(1, 2);
        model.query_heads = model.kv_heads * between(1, 3);
        model.head_dim = 8 * between(1, 2);
        model.hidden = 8 * between(1, 4);
        model.ffn = 8 * between(1, 6);
        model.vocab = between(2, 60);
        model.max_positions = 1 << 20;
        model.tied_embeddings = coin();
        model.qkv_bias = coin();
        model.output_bias = coin();
        model.qk_norm = coin();
        return model;
    }

    RunConfiguration run() {
        RunConfiguration run;
        run.page_tokens = pick(limits_.page_tokens);
        run.chunk_tokens = run.page_tokens * between(1, limits_.pages_per_chunk);
        run.window_tokens = run.page_tokens * between(1, 2 * limits_.pages_per_chunk);
        run.context_tokens = between(1, limits_.chunks * run.chunk_tokens);
        run.logit_tile_tokens = between(std::max<std::int64_t>(1, run.chunk_tokens / 5), 2 * run.chunk_tokens);
        run.offload = coin() ? Offload::kHost : Offload::kNone;
        run.keep = pick<Keep>({Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput});
        run.kept_pages = kept_pages();
        run.held_chunks = keeps_input(run.keep) ? Amount{} : held_chunks();
        run.optimizer = between(0, 3) != 0;
        run.shard_parameters = between(64, 4000);
        run.resident_shards = resident_shards();
        run.compute = run.accumulator = coin() ? DType::kF32 : DType::kF64;
        if (limits_.top_k && coin()) {
            run.attention = AttentionMode::kTopK;
            run.top_k = between(1, run.window_tokens / run.page_tokens);
        }
        if (limits_.evaluates) {
            make_evaluation(run);
            return run;
        }
        run.device = limits_.any_device && coin() ? DeviceKind::kCuda : DeviceKind::kCpu;
        if (run.accumulator == DType::kF32 && coin()) {
            run.compute = DType::kBF16;
            run.bf16_gradients = coin();
            run.split_masters = coin();
        }
        return run;
    }

    static void take_own_kernels(RandomStep& step) {
        step.model.head_dim *= 8;  // 64 or 128
        step.run.device = DeviceKind::kCuda;
        step.run.compute = DType::kBF16;
        step.run.accumulator = DType::kF32;
        step.run.deterministic = step.run.context_tokens % 2 == 0;
        step.run.attention_kernels = AttentionKernels::kOwn;
    }

    void make_evaluation(RunConfiguration& run) {
        run.forward_only = true;
        run.keep = Keep::kNone;
        run.held_chunks = {};
        run.optimizer = false;
        if (run.attention == AttentionMode::kTopK) {
            run.attention = coin() ? AttentionMode::kRandom : AttentionMode::kTopK;
        } else if (coin()) {
            run.recall_budgets = {1, between(2, 4)};
        }
        if (run.compute == DType::kF32 && coin()) {
            run.compute = DType::kBF16;
        }
    }

    // None for a third of the runs, all for another.
    Amount held_chunks() {
        switch (between(0, 2)) {
            case 0:
                return {};
            case 1:
                return {Amount::Mode::kAll, 0};
            default:
                return {Amount::Mode::kCount, between(1, limits_.chunks)};
        }
    }

    // All for half of the runs, else anything from none to more than there are.
    Amount kept_pages() {
        return coin() ? Amount{Amount::Mode::kAll, 0}
                      : Amount{Amount::Mode::kCount, between(0, limits_.chunks * limits_.layers)};
    }

    // All for a third of the runs, none for another.
    Amount resident_shards() {
        switch (between(0, 2)) {
            case 0:
                return {Amount::Mode::kAll, 0};
            case 1:
                return {};
            default:
                return {Amount::Mode::kCount, between(1, 6)};
        }
    }

    // Of 1 token to a little more than the context, whole pages or not; sinks from none to several chunks.
    void add_windows(RandomStep& step) {
        const std::int64_t page = step.run.page_tokens;
        const auto window = [&] {
            const std::int64_t tokens = between(1, step.run.context_tokens + 3);
            return coin() ? tokens : std::max(page, tokens / 3 / page * page);
        };
        if (coin()) {
            step.run.attention = AttentionMode::kLocal;
            step.run.local_window = window();
            step.run.sinks = coin() ? page * between(0, 2 * limits_.pages_per_chunk) : 0;
        }
        if (step.run.attention == AttentionMode::kDense || (step.run.sinks == 0 && coin())) {
            const std::int64_t of_model = 1 + window();
            for (std::int64_t layer = 0; layer < step.model.layers; ++layer) {
                step.model.sliding_windows.push_back(coin() ? of_model : 0);
            }
        }
    }

    void limit_hbm(RandomStep& step) {
        const std::int64_t pages = schedule::StepShape(step.model, step.run).total_pages();
        switch (between(0, 2)) {
            case 0:
                step.run.hbm_pages.mode = HbmPages::Mode::kRing;
                break;
            case 1:
                step.run.hbm_pages = {HbmPages::Mode::kCount, between(0, pages + 2)};
                break;
            default:
                step.run.gpu_memory_bytes = budget(step);
        }
    }

    // Somewhere from the ring's need to a little more than everything.
    std::int64_t budget(RandomStep step) {
        const auto peak = [&](HbmPages pages) {
            step.run.hbm_pages = pages;
            return schedule::make_plan(step.model, step.run).peak_bytes(Tier::kHbm);
        };
        return between(peak({HbmPages::Mode::kRing, 0}), peak({HbmPages::Mode::kAuto, 0}) + 1000);
    }

    std::mt19937_64 random_;
    RandomLimits limits_;
};

class KeepOperations : public schedule::OperationSink {
  public:
    void take(const schedule::Operation& operation) override { operations.push_back(operation); }
    std::vector<schedule::Operation> operations;
};

// `sequences` of the same shape, then the optimizer: a whole step.
inline void generate_step(const ModelShape& model, const RunConfiguration& run, schedule::OperationSink& sink,
                          std::int64_t sequences = 1) {
    const schedule::StepShape step(model, run);
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
        schedule::SequenceGenerator(step, sequence, sequences, sink).generate();
    }
    schedule::generate_optimizer(step, sink);
}

inline std::vector<schedule::Operation> operations_of(const ModelShape& model, const RunConfiguration& run,
                                                      std::int64_t sequences = 1) {
    KeepOperations sink;
    generate_step(model, run, sink, sequences);
    return std::move(sink.operations);
}

}  // namespace oomb::testing
