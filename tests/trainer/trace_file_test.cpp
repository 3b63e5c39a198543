// The trace that a run on the CPU writes: every operation that was issued, once, with times that can be.
#include "trainer/run/trace_file.hpp"

#include <array>
#include <map>

#include "runtime/issue/movement.hpp"
#include "runtime/schedule/generator.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

struct Expected {
    schedule::OperationId id;
    std::int64_t bytes, pages;
};

// Issues a step with no backend behind.
class Listing : public issue::IssuedSink {
  public:
    explicit Listing(const schedule::Plan& plan) : plan_(plan) {}
    void take(issue::IssuedOperation issued) override {
        const issue::Movement moved = issue::movement_of(issued, plan_);
        by_engine[static_cast<int>(issued.operation.engine)].push_back({issued.operation.id, moved.bytes, moved.pages});
    }
    std::array<std::vector<Expected>, schedule::kEngines> by_engine;

  private:
    const schedule::Plan& plan_;
};

Listing listing_of(const StepCase& step) {
    Listing listing(step.plan);
    issue::Issuer issuer(step.plan, listing);
    const auto count = static_cast<std::int64_t>(step.sequences.size());
    for (std::int64_t i = 0; i < count; ++i) {
        RunConfiguration run = step.plan.run;
        run.context_tokens = static_cast<std::int64_t>(step.sequences[i].tokens.size());
        const schedule::StepShape shape(step.plan.model, run);
        schedule::SequenceGenerator(shape, i, count, issuer).generate();
    }
    schedule::generate_optimizer(schedule::StepShape(step.plan.model, step.plan.run), issuer);
    return listing;
}

void trace_step(const StepCase& step, const std::filesystem::path& path, Order order) {
    trainer::TraceFile trace(path);
    trainer::CpuBackend<double> backend(step.plan, {.order = order, .seed = 5});
    trace.begin(step.plan, backend.device_name());
    backend.on_timed = [&](const trainer::OperationRecord& record) { trace.write(record); };
    std::copy(step.weights.begin(), step.weights.end(), backend.weights());
    trainer::Executor executor(step.plan, backend);
    executor.on_lists([&](const trainer::GroupLists& lists) { trace.write(lists); });
    std::vector<trainer::SequenceView> views;
    for (const TestSequence& sequence : step.sequences) {
        views.push_back(sequence.view());
    }
    trace.begin_step(1);
    executor.compute_gradients(views, {});
    executor.update_weights();
    trace.flush();
}

TEST_CASE("every issued operation once, in the order of its engine, without overlap") {
    const test::ScratchFolder folder;
    const StepCase step(step_run(DType::kF64, Offload::kHost, Keep::kInputAndOutput));
    const Listing expected = listing_of(step);
    for (const Order order : {Order::kInOrder, Order::kShuffled, Order::kThreads}) {
        CAPTURE(static_cast<int>(order));
        const auto path = folder.path() / fmt::format("{}.trace", static_cast<int>(order));
        trace_step(step, path, order);
        const trace::Trace found = trace::read_trace(path);
        CHECK(found.header.device == "cpu");
        CHECK(found.header.plan == Json::parse(schedule::to_json(step.plan)));
        std::array<std::size_t, schedule::kEngines> count{};
        std::array<std::int64_t, schedule::kEngines> free_from{};
        for (const trace::TraceRecord& record : found.records) {
            const int engine = static_cast<int>(record.engine);
            REQUIRE(count[engine] < expected.by_engine[engine].size());
            const Expected& operation = expected.by_engine[engine][count[engine]++];
            CAPTURE(to_text(operation.id));
            CHECK(record.step == 1);
            CHECK(record.id == operation.id);
            CHECK(record.bytes == operation.bytes);
            CHECK(record.pages == operation.pages);
            CHECK(record.begin_ns >= free_from[engine]);
            CHECK(record.end_ns >= record.begin_ns);
            free_from[engine] = record.end_ns;
        }
        for (int engine = 0; engine < schedule::kEngines; ++engine) {
            CHECK(count[engine] == expected.by_engine[engine].size());
        }
        CHECK(count[static_cast<int>(schedule::Engine::kHostToDevice)] > 0);
        CHECK(count[static_cast<int>(schedule::Engine::kDeviceToHost)] > 0);
    }
}

TEST_CASE("lists of every group of query pages, once, as the backend has them at the end") {
    const test::ScratchFolder folder;
    Way way;
    way.offload = Offload::kHost;
    way.top_k = 2;
    const StepCase step(step_run(DType::kF64, way));
    for (const Order order : {Order::kInOrder, Order::kThreads}) {
        const auto path = folder.path() / fmt::format("{}.trace", static_cast<int>(order));
        trace_step(step, path, order);
        const trace::Trace found = trace::read_trace(path);
        const schedule::StepShape shape(step.plan.model, step.plan.run);
        REQUIRE(shape.selects());
        std::map<std::array<std::int64_t, 3>, std::vector<std::int32_t>> lists;
        for (const trace::ListsRecord& record : found.lists) {
            CHECK(record.step == 1);
            CHECK(record.length == shape.run().top_k);
            const bool is_new =
                lists.emplace(std::array{record.sequence, record.layer, record.query_page}, record.lists).second;
            CHECK(is_new);
        }
        // Sequences may be shorter than planned, so their query pages are counted from what they have.
        std::int64_t expected = 0, named = 0;
        for (const TestSequence& sequence : step.sequences) {
            RunConfiguration run = step.plan.run;
            run.context_tokens = static_cast<std::int64_t>(sequence.tokens.size());
            expected += schedule::StepShape(step.plan.model, run).listed_pages() * shape.model().layers;
        }
        for (const auto& [key, entries] : lists) {
            named += std::ssize(entries) / shape.run().top_k;
        }
        CHECK(expected > 0);
        CHECK(named == expected);
    }
}

TEST_CASE("an existing file is refused and kept") {
    const test::ScratchFolder folder;
    const auto path = folder.write("taken.trace", "mine");
    const std::string message = test::message_of<FileError>([&] { trainer::TraceFile trace(path); });
    CHECK(message.find("taken.trace") != std::string::npos);
    CHECK(read_text_file(path, 100) == "mine");
}

TEST_CASE("what is not flushed is written when the run ends with an error") {
    const test::ScratchFolder folder;
    const auto path = folder.path() / "run.trace";
    const schedule::Plan plan = schedule::make_plan(small_shape(), small_run(64, 16));
    schedule::Operation operation;
    operation.id.chunk = 3;
    {
        trainer::TraceFile trace(path);
        trace.begin(plan, "cpu");
        trace.begin_step(4);
        trace.write({.operation = &operation, .begin_seconds = 1.5, .end_seconds = 1.5000000004});
    }
    const trace::Trace found = trace::read_trace(path);
    REQUIRE(found.records.size() == 1);
    CHECK(found.records[0] ==
          trace::TraceRecord{.step = 4, .id = operation.id, .begin_ns = 1'500'000'000, .end_ns = 1'500'000'000});
}

}  // namespace
}  // namespace oomb::testing
