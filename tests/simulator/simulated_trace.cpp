#include "tests/simulator/simulated_trace.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/step/observer.hpp"

namespace oomb::test {
namespace {

class Recorder : public simulator::StepObserver {
  public:
    void begins(const issue::Issuer& /*issuer*/) override {}
    void ran(const issue::IssuedOperation& issued, double begin, double end, const issue::Movement& movement) override {
        records.push_back({.step = 1,
                           .id = issued.operation.id,
                           .engine = issued.operation.engine,
                           .begin_ns = std::llround(begin * 1e9),
                           .end_ns = std::llround(end * 1e9),
                           .bytes = movement.bytes,
                           .pages = movement.pages});
    }
    std::vector<trace::TraceRecord> records;
};

}  // namespace

schedule::Plan small_traced_plan(AttentionMode attention) {
    ModelShape model;
    model.layers = 2;
    model.hidden = model.ffn = 16;
    model.query_heads = 2;
    model.kv_heads = 1;
    model.head_dim = 8;
    model.vocab = 50;
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.context_tokens = 64;
    run.chunk_tokens = 16;
    run.page_tokens = 8;
    run.window_tokens = 32;
    run.attention = attention;
    run.top_k = attention == AttentionMode::kTopK ? 1 : 0;
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    return schedule::make_plan(model, run);
}

std::vector<trace::TraceRecord> simulated_records(const schedule::Plan& plan, simulator::Durations& durations,
                                                  std::int64_t steps, std::int64_t sequences) {
    Recorder recorder;
    const simulator::Prediction step = simulate_step(plan, durations, sequences, &recorder);
    std::vector<trace::TraceRecord> one = std::move(recorder.records), all;
    std::stable_sort(one.begin(), one.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
    const std::int64_t length_ns = std::llround(step.seconds * 1e9) + 1'000'000'000;
    for (std::int64_t number = 0; number < steps; ++number) {
        for (trace::TraceRecord record : one) {
            record.step = number + 1;
            record.begin_ns += number * length_ns;
            record.end_ns += number * length_ns;
            all.push_back(record);
        }
    }
    return all;
}

std::string trace_text(const schedule::Plan& plan, const std::vector<trace::TraceRecord>& records) {
    const char* device = plan.run.device == DeviceKind::kCpu ? "cpu" : "a GPU";
    std::string lines = trace::header_line({"a test", device, "simulated", Json::parse(schedule::to_json(plan))});
    std::int64_t step = 0;
    for (const trace::TraceRecord& record : records) {
        if (record.step != step) {
            step = record.step;
            lines += trace::step_line(step);
        }
        trace::append_record_line(record, lines);
    }
    return lines;
}

}  // namespace oomb::test
