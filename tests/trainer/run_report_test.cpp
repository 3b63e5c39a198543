#include "trainer/run/run_report.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/core/units.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

using trainer::StepUse;
using trainer::TrainingOptions;

std::string line_of(const std::string& table, const std::string& name) {
    const std::size_t begin = table.find("\n  " + name + " ");
    REQUIRE(begin != std::string::npos);
    return table.substr(begin + 1, table.find('\n', begin + 1) - begin - 1);
}

// A CPU backend that says it had prepared.
class Prepared : public trainer::CpuBackend<double> {
  public:
    using CpuBackend::CpuBackend;
    std::int64_t library_plans() const override { return 45; }
    double preparation_seconds() const override { return 7.5; }
};

TEST_CASE("what was prepared before the first step is told apart from what steps made") {
    const StepCase step(step_run(DType::kF64, Offload::kHost, Keep::kNone));
    Prepared backend(step.plan);
    trainer::Executor executor(step.plan, backend);
    StepUse total;
    total.steps = 2;
    total.library_plans = 5;
    const TrainingOptions options;
    const trainer::RunView run{options, step.plan, backend, executor, total};
    CHECK(line_of(run_table(run), "preparation, once").find("7.50 s") != std::string::npos);
    const auto report = nlohmann::json::parse(run_json(run, {}))["report"];
    CHECK(report["preparation"]["seconds"] == 7.5);
    CHECK(report["preparation"]["library_plans"] == 40);
    const trainer::CpuBackend<double> plain(step.plan);
    CHECK(trainer::run_table({options, step.plan, plain, executor, total}).find("preparation") == std::string::npos);
}

TEST_CASE("a prediction stands beside the mean of the steps, per phase") {
    const StepCase step(step_run(DType::kF64, Offload::kHost, Keep::kNone));
    trainer::CpuBackend<double> backend(step.plan);
    trainer::Executor executor(step.plan, backend);
    StepUse total;
    total.steps = 2;
    total.tokens = 100;
    total.seconds = 8.0;
    total.phase_seconds = {1.0, 2.0, 3.0, 1.5};
    TrainingOptions options;
    const trainer::RunView run{options, step.plan, backend, executor, total};
    CHECK(line_of(run_table(run), "step").find("4.00 s") != std::string::npos);
    const auto without = nlohmann::json::parse(run_json(run, {}))["report"];
    CHECK(without["predicted_step_seconds"].is_null());

    options.predicted = {5.0, {0.75, 1.25, 2.5, 0.5}};
    const std::string table = run_table(run);
    CHECK(line_of(table, "step").find("5.00 s") < line_of(table, "step").find("4.00 s"));
    CHECK(line_of(table, "  fill").find("750 ms") < line_of(table, "  fill").find("500 ms"));
    const auto report = nlohmann::json::parse(run_json(run, {}))["report"];
    CHECK(report["seconds"] == without["seconds"]);
    CHECK(report["predicted_step_seconds"]["total"] == 5.0);
    CHECK(report["predicted_step_seconds"]["backward"] == 2.5);
    CHECK(report["predicted_step_seconds"].size() == report["seconds"].size());
}

TEST_CASE("arenas, page tables and the process are lines of their own, alike in table and JSON") {
    const StepCase step(step_run(DType::kF64, Offload::kHost, Keep::kNone));
    trainer::CpuBackend<double> backend(step.plan);
    trainer::Executor executor(step.plan, backend);
    const TrainingOptions options;
    const StepUse total;
    const trainer::RunView run{options, step.plan, backend, executor, total};
    const auto memory = nlohmann::json::parse(run_json(run, {}))["report"]["memory_bytes"];
    CHECK(memory["page_tables"]["predicted"] == step.plan.page_table_bytes);
    CHECK(memory["page_tables"]["measured"] == step.plan.page_table_bytes);
    const std::int64_t parts = step.plan.arena_bytes[0] + step.plan.arena_bytes[1] + step.plan.page_table_bytes;
    CHECK(memory["resident"]["predicted"] == parts);
    const std::string table = run_table(run);
    CHECK(line_of(table, "page tables, on the host").find(format_bytes(step.plan.page_table_bytes)) !=
          std::string::npos);
    CHECK(line_of(table, "resident, whole process").find(format_bytes(parts)) != std::string::npos);
    CHECK(table.find("predicted as both arenas and page tables") != std::string::npos);
}

}  // namespace
}  // namespace oomb::testing
