// The checker checks: with one wait taken away, or one frame exchanged, a step does not pass.

#include <algorithm>

#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

using issue::IssuedOperation;
using schedule::kEngines;
using schedule::Kind;

struct Wait {
    std::uint64_t operation = 0;
    int engine = 0;
};

std::vector<Wait> waits_of(const StepCase& step) {
    std::vector<Wait> waits;
    step.run<double>({.tamper = [&](const IssuedOperation& operation) {
        for (int engine = 0; engine < kEngines; ++engine) {
            if (operation.waits[engine] > 0) {
                waits.push_back({operation.number, engine});
            }
        }
    }});
    return waits;
}

// By the checker; or by the issuer, which meets poison where lists are stored before they are made.
bool reports_hazard(const StepCase& step, trainer::CpuBackendOptions options) {
    try {
        step.run<double>(std::move(options));
    } catch (const InternalError& error) {
        const std::string what = error.what();
        return what.starts_with("hazard:") || what.starts_with("page list of query page");
    }
    return false;
}

// Every wait is needed (tests/issue), so taking one away must leave two accesses without an order, and the checker must
// see them whatever order the execution takes.
void check_waits(const StepCase& step) {
    const std::vector<Wait> waits = waits_of(step);
    REQUIRE(waits.size() >= 20);
    std::size_t caught = 0;
    for (const Wait& wait : waits) {
        const auto take_away = [&](IssuedOperation& operation) {
            if (operation.number == wait.operation) {
                operation.waits[wait.engine] = 0;
            }
        };
        CAPTURE(wait.operation);
        CAPTURE(wait.engine);
        const bool in_order = reports_hazard(step, {.tamper = take_away});
        const bool shuffled =
            reports_hazard(step, {.order = Order::kShuffled, .seed = wait.operation, .tamper = take_away});
        CHECK(in_order);
        CHECK(shuffled);
        caught += in_order && shuffled ? 1 : 0;
    }
    MESSAGE("waits taken away: ", waits.size(), ", caught in order and shuffled: ", caught);
}

TEST_CASE("each wait taken away is reported: nothing kept") {
    check_waits(StepCase(step_run(DType::kF64, Offload::kHost, Keep::kNone)));
}

TEST_CASE("each wait taken away is reported: top-K pages") {
    check_waits(StepCase(step_run(DType::kF64, {.offload = Offload::kHost, .top_k = 2})));
    check_waits(StepCase(step_run(DType::kF64, {.offload = Offload::kHost, .keep = Keep::kInput, .top_k = 2})));
    check_waits(StepCase(step_run(DType::kF64, {.offload = Offload::kHost, .held_chunks = some(2), .top_k = 2})));
}

TEST_CASE("each wait taken away is reported: a sliding window and sinks") {
    check_waits(StepCase(step_run(DType::kF64, {.offload = Offload::kHost, .local_window = 21, .sinks = 8})));
    // Shorter than a chunk, with sinks in it.
    check_waits(StepCase(
        step_run(DType::kF64, {.offload = Offload::kHost, .keep = Keep::kInput, .local_window = 5, .sinks = 8})));
}

TEST_CASE("each wait taken away is reported: inputs and outputs kept") {
    check_waits(StepCase(step_run(DType::kF64, Offload::kHost, Keep::kInputAndOutput)));
}

TEST_CASE("each wait taken away is reported: inputs or outputs kept, held chunks") {
    check_waits(StepCase(step_run(DType::kF64, Offload::kHost, Keep::kInput)));
    check_waits(StepCase(step_run(DType::kF64, Offload::kHost, Keep::kOutput)));
    check_waits(StepCase(step_run(DType::kF64, {Offload::kHost, Keep::kNone, some(2)})));
    check_waits(StepCase(step_run(DType::kF64, {Offload::kHost, Keep::kOutput, some(2)})));
}

TEST_CASE("each wait taken away is reported: kept pages in both tiers") {
    RunConfiguration run = step_run(DType::kF64, Offload::kHost, Keep::kInputAndOutput);
    run.kept_pages = some(4);
    run.gpu_memory_bytes = schedule::make_plan(busy_shape(), run).peak_bytes(Tier::kHbm) + (1 << 14);
    run.hbm_pages.mode = HbmPages::Mode::kAuto;
    const StepCase step(run);
    REQUIRE(step.plan.kept_hbm > 0);
    REQUIRE(step.plan.kept_host > 0);
    check_waits(step);
}

TEST_CASE("each wait taken away is reported: optimizer states on the host") {
    check_waits(StepCase(step_run(DType::kF64, {.offload = Offload::kNone, .resident_shards = some(0)})));
    check_waits(StepCase(step_run(DType::kF64, {.offload = Offload::kNone, .resident_shards = some(2)})));
}

TEST_CASE("each wait taken away is reported: a few pages stay in HBM") {
    RunConfiguration run = step_run(DType::kF64, Offload::kHost, Keep::kNone);
    run.hbm_pages = {HbmPages::Mode::kCount, 5};
    check_waits(StepCase(run));
}

// The operation computes on the frames of grants[request]; page copies and releases carry theirs elsewhere.
bool computes_on_frames(const IssuedOperation& operation, std::size_t request) {
    const Kind kind = operation.operation.id.kind;
    return !is_page_copy(kind) && kind != Kind::kRelease && !operation.grants[request].frames.empty();
}

void check_exchanged_frames(const StepCase& step) {
    std::vector<std::pair<std::uint64_t, std::size_t>> uses;  // operation, request
    const auto expected = step.run<double>({.tamper = [&](const IssuedOperation& operation) {
        for (std::size_t i = 0; i < operation.grants.size(); ++i) {
            if (computes_on_frames(operation, i)) {
                uses.emplace_back(operation.number, i);
            }
        }
    }});
    std::mt19937_64 random(8);
    std::shuffle(uses.begin(), uses.end(), random);
    REQUIRE(uses.size() >= 60);
    uses.resize(60);
    for (const auto& [number, request] : uses) {
        const auto exchange = [&, which = random()](IssuedOperation& operation) {
            if (operation.number == number) {
                auto& grant = operation.grants[request];
                const auto frames = static_cast<std::int32_t>(step.plan.pool(grant.tier, grant.page_class)->frames);
                auto& frame = grant.frames[which % grant.frames.size()];
                frame =
                    (frame + 1 + static_cast<std::int32_t>(which % static_cast<std::uint64_t>(frames - 1))) % frames;
            }
        };
        CAPTURE(number);
        bool caught = false;
        try {
            caught = !same_bits(step.run<double>({.tamper = exchange}).gradients, expected.gradients);
        } catch (const Error&) {
            caught = true;
        }
        CHECK(caught);
    }
}

TEST_CASE("a frame exchanged for another is reported or changes the result") {
    check_exchanged_frames(StepCase(step_run(DType::kF64, Offload::kHost, Keep::kInputAndOutput)));
    check_exchanged_frames(StepCase(step_run(DType::kF64, {.offload = Offload::kHost, .top_k = 2})));
    check_exchanged_frames(
        StepCase(step_run(DType::kF64, {.offload = Offload::kHost, .local_window = 21, .sinks = 8})));
}

}  // namespace
}  // namespace oomb::testing
