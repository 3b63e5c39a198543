// --attention-kernels own on the simulator's clock, and in plans that are read back.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "simulator/cli/recorded_plan.hpp"
#include "simulator/costs/operation_parts.hpp"
#include "simulator/search/compute_bound.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/core/messages.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {
namespace {

using schedule::AttentionCost;
using schedule::Kind;
using schedule::Plan;
using simulator::Prediction;
using simulator::simulate_in_larger_pages;
using simulator::simulate_step;
using testing::RandomStep;
using testing::RandomSteps;

RandomSteps random_steps(std::uint64_t seed) {
    return RandomSteps(seed, {.layers = 4, .chunks = 6, .page_tokens = {128}, .local = true, .own_kernels = true});
}

Plan plan_by(AttentionKernels kernels, RandomStep step) {
    step.run.attention_kernels = kernels;
    return schedule::make_plan(step.model, step.run);
}

Json without_kernels(Json json) {
    json.erase("attention_kernels");
    json["run"].erase("attention_kernels");
    return json;
}

Plan read_back(const Json& json) {
    return simulator::recorded_plan(JsonNode(json, "run.trace, line 1, plan")).plan;
}

// Kernels and bytes around the products, at the machine's 1e-6 s and 1e9 bytes a second.
double seconds_around(const schedule::Operation& operation, const RunConfiguration& run) {
    double seconds = 0;
    for (const auto& [part, amount] : simulator::parts_of(operation, run, 4).list) {
        seconds += amount * (part == simulator::Part::kLaunch ? 1e-6 : 1e-9);
    }
    return seconds;
}

}  // namespace

TEST_CASE("own kernels: the products of cuDNN's, nothing around them but K/V gradients that are added") {
    AttentionCost cost{
        .first_query = 512, .queries = 256, .first_key = 0, .keys = 512, .query_heads = 2, .kv_heads = 1};
    cost.head_dim = 64;
    schedule::Operation operation;
    RunConfiguration run;
    run.compute = DType::kBF16;
    for (const bool backward : {false, true}) {
        for (const std::int64_t first_key : {0, 512}) {
            operation.id.kind = backward ? Kind::kAttentionBackward : Kind::kAttention;
            cost.backward = backward;
            cost.first_key = first_key;
            cost.own_kernels = false;
            operation.cost = cost;
            const simulator::OperationParts cudnn = simulator::parts_of(operation, run, 4);
            cost.own_kernels = true;
            operation.cost = cost;
            const simulator::OperationParts own = simulator::parts_of(operation, run, 4);
            CHECK(own.kernel == simulator::own_kernel(cudnn.kernel));
            REQUIRE(own.tilings.size() == 1);
            CHECK(own.tilings[0].flops == cudnn.tilings[0].flops);
            CHECK(own.tilings[0].waves == cudnn.tilings[0].waves);
            const double added = backward ? 2.0 * 2 * 512 * 64 * 4 : 0.0;  // read and written, K and V, fp32
            const double launches = backward ? 3 : 2;
            CHECK(seconds_around(operation, run) == doctest::Approx(launches * 1e-6 + added * 1e-9).epsilon(1e-12));
        }
    }
}

TEST_CASE("own kernels: a step takes less by its merges and by what is around cuDNN, and copies the same") {
    RandomSteps random = random_steps(31);
    for (int i = 0; i < 150; ++i) {
        RandomStep step = random.next();
        step.run.gpu_memory_bytes = 0;  // the same homes
        const Plan own = plan_by(AttentionKernels::kOwn, step), cudnn = plan_by(AttentionKernels::kCudnn, step);
        CAPTURE(to_json(own));
        const Prediction a = simulate_step(own, machine()), b = simulate_step(cudnn, machine());
        CHECK(a.of(Kind::kMerge).operations == 0);
        CHECK(a.of(schedule::Engine::kHostToDevice).bytes == b.of(schedule::Engine::kHostToDevice).bytes);
        CHECK(a.of(schedule::Engine::kDeviceToHost).bytes == b.of(schedule::Engine::kDeviceToHost).bytes);
        double less = b.of(Kind::kMerge).seconds;
        const auto around = [](const Plan& plan) {
            double seconds = 0;
            for (const schedule::Operation& operation : testing::operations_of(plan.model, plan.run)) {
                const bool attends = std::holds_alternative<AttentionCost>(operation.cost);
                seconds += attends ? seconds_around(operation, plan.run) : 0.0;
            }
            return seconds;
        };
        less += around(cudnn) - around(own);
        const double saved = b.of(schedule::Engine::kCompute).seconds - a.of(schedule::Engine::kCompute).seconds;
        CHECK(saved == doctest::Approx(less).epsilon(1e-6));
        CHECK(a.seconds <= b.seconds * (1 + 1e-12));
        const double bound = simulator::ComputeBound(own.model, own.run, machine()).sequence_seconds(own.run);
        CHECK(bound <= a.seconds * (1 + 1e-10));
    }
}

TEST_CASE("own kernels: larger pages change nothing where homes end with a chunk") {
    RandomSteps random = random_steps(32);
    for (int i = 0; i < 100; ++i) {
        RandomStep step = random.next();
        step.run.gpu_memory_bytes = 0;
        if (step.run.offload == Offload::kHost) {
            step.run.hbm_pages = {HbmPages::Mode::kRing, 0};
        }
        const std::int64_t unit = std::gcd(step.run.chunk_tokens, step.run.window_tokens);
        step.run.context_tokens = schedule::divide_up(step.run.context_tokens, unit) * unit;
        const Plan plan = plan_by(AttentionKernels::kOwn, step);
        CAPTURE(to_json(plan));
        CHECK(simulate_in_larger_pages(plan, machine()).seconds ==
              doctest::Approx(simulate_step(plan, machine()).seconds).epsilon(1e-11));
    }
}

TEST_CASE("a plan that is read back has its kernels; one of earlier programs, which does not say, cuDNN's") {
    RandomStep step;
    step.model = random_steps(33).next().model;
    step.model.sliding_windows.clear();
    step.run.device = DeviceKind::kCuda;
    step.run.compute = DType::kBF16;
    step.run.context_tokens = 100'000;
    step.run.gpu_memory_bytes = step.run.host_memory_bytes = kTiB;
    step.run.resident_shards = {Amount::Mode::kAuto, 0};
    for (const AttentionKernels kernels : {AttentionKernels::kOwn, AttentionKernels::kCudnn, AttentionKernels::kAuto}) {
        const Plan plan = plan_by(kernels, step);
        const Json json = Json::parse(to_json(plan));
        CAPTURE(to_json(plan));
        CHECK(to_json(read_back(json)) == to_json(plan));
        const Plan old = read_back(without_kernels(json));
        CHECK(old.asked.attention_kernels == AttentionKernels::kAuto);
        CHECK(old.run.attention_kernels == AttentionKernels::kCudnn);
    }
    Json wrong = Json::parse(to_json(plan_by(AttentionKernels::kOwn, step)));
    wrong["attention_kernels"] = "fastest";
    check_contains(message_of<FileError>([&] { read_back(wrong); }), {"--attention-kernels", "fastest"});
}

TEST_CASE("oomb-plan replay: a step of own kernels, as recorded and with other windows") {
    const TemporaryFolder folder;
    const auto file = [&](const char* name) { return (folder.path() / name).string(); };
    HardwareProfile profile = default_hardware();
    profile.submit.seconds = profile.submit_page.seconds = 0;  // how the host is followed is another test's
    write_text_file(file("machine.json"), to_json(profile));
    std::vector<std::string> arguments =
        words("timeline --context 16K --chunk 2K --window 4K --offload host --hbm-pages ring --attention-kernels own");
    arguments.insert(arguments.end(), {"--model", model_file("smollm2-135m"), "--trace", file("run.trace"),
                                       "--hardware", file("machine.json")});
    REQUIRE(call_plan(arguments).code == 0);
    const PlanCall call =
        call_plan({"replay", "--trace", file("run.trace"), "--window", "8K", "--json", file("replay.json")});
    CAPTURE(call.err);
    REQUIRE(call.code == 0);
    const Json replay = read_json_file(file("replay.json"));
    CHECK(replay.at("run").get<std::string>().find("--attention-kernels own") != std::string::npos);
    // Times in a trace are whole nanoseconds, and each of some thirteen thousand operations may wait for the one
    // before.
    CHECK(std::abs(replay.at("error").get<double>()) < 13'000 * 1e-9 / 0.25);
    CHECK(replay.at("notes").empty());  // no merge, of which the trace knows nothing
}

TEST_CASE("oomb-plan: own kernels need less memory, and are refused with the reason") {
    const std::string shape = "--context 64K --chunk 8K --offload host --hbm-pages ring --deterministic";
    const auto plan = [&](const std::string& model, const std::string& flags) {
        std::vector<std::string> arguments = words(shape + " " + flags);
        arguments.insert(arguments.end(), {"--model", model_file(model)});
        return call_plan(arguments);
    };
    const PlanCall own = plan("qwen2.5-7b", "--attention-kernels own");
    CHECK(own.code == 0);
    CHECK(own.out.find("dense attention by own kernels") != std::string::npos);
    CHECK(own.out.find("attention_scratch") == std::string::npos);
    CHECK(plan("qwen2.5-7b", "--attention-kernels cudnn").out.find("attention_scratch") != std::string::npos);
    CHECK(plan("qwen2.5-7b", "--attention-kernels auto").out == plan("qwen2.5-7b", "").out);
    const auto refused = [&](const std::string& flags, std::initializer_list<std::string_view> fragments) {
        const PlanCall call = plan("qwen2.5-7b", flags);
        CHECK(call.code == 2);
        check_contains(call.err, fragments);
    };
    refused("--attention-kernels own --device cpu", {"--attention-kernels own with --device cpu", "allowed is auto"});
    refused("--attention-kernels own --page-tokens 64", {"with --page-tokens 64", "allowed are pages of 128 tokens"});
    refused("--attention-kernels own --dtype fp32", {"with --dtype fp32", "allowed is auto"});
    refused("--attention-kernels fast", {"--attention-kernels: found \"fast\", allowed is auto, cudnn, own"});
}

}  // namespace oomb::test
