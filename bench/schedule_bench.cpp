// How fast the schedule of Qwen2.5-7B is generated, and what it costs to plan its memory.
#include <benchmark/benchmark.h>

#include <sstream>

#include "bench/heap.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/units.hpp"
#include "runtime/issue/issuer.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/cli/run_plan.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::bench {
namespace {

const char* const kModel = OOMB_SOURCE_DIR "/models/qwen2.5-7b.json";

RunConfiguration run_of(std::int64_t context_tokens) {
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.context_tokens = context_tokens;
    run.offload = Offload::kHost;
    run.compute = DType::kBF16;
    run.gpu_memory_bytes = 139 * kGiB;
    return run;
}

class CountingSink : public schedule::OperationSink {
  public:
    void take(const schedule::Operation& operation) override {
        ++operations;
        benchmark::DoNotOptimize(&operation);
    }
    std::int64_t operations = 0;
};

void generate_sequence(benchmark::State& state) {
    const schedule::StepShape step(read_model_shape(kModel), run_of(state.range(0)));
    CountingSink sink;
    for (auto _ : state) {
        schedule::SequenceGenerator(step, 0, 1, sink).generate();
    }
    state.SetItemsProcessed(sink.operations);
    state.counters["operations"] = static_cast<double>(sink.operations) / static_cast<double>(state.iterations());
}
BENCHMARK(generate_sequence)->Arg(128 << 10)->Arg(1 << 20)->Arg(4 << 20)->Unit(benchmark::kMillisecond);

class Pieces : public issue::IssuedSink {
  public:
    void take(issue::IssuedOperation issued) override {
        for (const paging::Grant& grant : issued.grants) {
            paging::PageCopy next{-1, -1};
            for (const paging::PageCopy& copy : grant.to_hbm.empty() ? grant.to_host : grant.to_hbm) {
                pages += 1;
                pieces += copy.hbm_frame == next.hbm_frame && copy.host_frame == next.host_frame ? 0 : 2;
                next = {copy.hbm_frame + 1, copy.host_frame + 1};
            }
        }
    }
    double pages = 0, pieces = 0;
};

// A step with every page on the host, not the first one: pages that travel, and the copies of keys and of values that
// neighbours make of them.
void issue_sequence(benchmark::State& state) {
    RunConfiguration run = run_of(state.range(0));
    run.chunk_tokens = 8192;
    run.window_tokens = 32768;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.host_memory_bytes = kTiB;
    run.optimizer = false;
    const schedule::Plan plan = schedule::make_plan(read_model_shape(kModel), run);
    const schedule::StepShape step(plan.model, plan.run);
    Pieces pieces;
    issue::Issuer issuer(plan, pieces);
    schedule::SequenceGenerator(step, 0, 1, issuer).generate();
    pieces.pages = pieces.pieces = 0;
    for (auto _ : state) {
        schedule::SequenceGenerator(step, 0, 1, issuer).generate();
    }
    state.counters["pages"] = pieces.pages / static_cast<double>(state.iterations());
    state.counters["pieces"] = pieces.pieces / static_cast<double>(state.iterations());
}
BENCHMARK(issue_sequence)->Arg(128 << 10)->Arg(256 << 10)->Iterations(1)->Unit(benchmark::kMillisecond);

// Goal: at most 1 s and 64 MiB for 4M tokens.
void make_plan(benchmark::State& state) {
    const ModelShape model = read_model_shape(kModel);
    const RunConfiguration run = run_of(state.range(0));
    const std::int64_t before = heap_bytes();
    start_heap_peak();
    for (auto _ : state) {
        benchmark::DoNotOptimize(schedule::make_plan(model, run));
    }
    state.counters["heap_bytes"] = static_cast<double>(most_heap_bytes() - before);
}
BENCHMARK(make_plan)->Arg(128 << 10)->Arg(1 << 20)->Arg(4 << 20)->Unit(benchmark::kMillisecond);

// The full walk up to 128K tokens, larger pages beyond. Goal: at most 50 ms up to 1M tokens; not reached yet.
void predict_step(benchmark::State& state) {
    const schedule::Plan plan = schedule::make_plan(read_model_shape(kModel), run_of(state.range(0)));
    for (auto _ : state) {
        benchmark::DoNotOptimize(simulator::predict_step(plan, default_hardware()));
    }
}
BENCHMARK(predict_step)->Arg(64 << 10)->Arg(128 << 10)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

// Goal: at most 2 s.
void search_best(benchmark::State& state) {
    const ModelShape model = read_model_shape(kModel);
    const RunConfiguration run = run_of(state.range(0));
    const simulator::Freedom everything{true, true, true, true, true, true, true, true, true};
    for (auto _ : state) {
        simulator::Search search(model, run, everything, default_hardware());
        benchmark::DoNotOptimize(search.best(run.gpu_memory_bytes, run.host_memory_bytes));
    }
}
BENCHMARK(search_best)->Arg(32 << 10)->Arg(128 << 10)->Unit(benchmark::kMillisecond);

// A whole call that does not fit, so all alternatives are planned as well. Goal: at most 50 ms.
void oomb_plan_call(benchmark::State& state) {
    const char* argv[] = {"oomb-plan", "--model", kModel, "--context", "1M"};
    for (auto _ : state) {
        std::ostringstream out, err;
        benchmark::DoNotOptimize(simulator::run_plan(5, argv, out, err));
    }
}
BENCHMARK(oomb_plan_call)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace oomb::bench
