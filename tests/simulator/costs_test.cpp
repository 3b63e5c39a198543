#include "simulator/costs.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/simulator/machine.hpp"

namespace oomb::test {

namespace {

using schedule::AttentionCost;
using schedule::CopyCost;
using schedule::ElementwiseCost;
using schedule::Engine;
using schedule::GemmCost;
using schedule::Kind;

RunConfiguration bf16() {
    RunConfiguration run;
    run.compute = DType::kBF16;
    run.accumulator = DType::kF32;
    return run;
}

double seconds_of(const schedule::Cost& cost, Kind kind = Kind::kSwiglu) {
    schedule::Operation operation;
    operation.id.kind = kind;
    operation.cost = cost;
    return simulator::Costs(bf16(), machine()).compute_seconds(operation);
}

constexpr double kLaunch = 1e-6;

// Every expectation is a sum of a few quotients: some roundings of 2^-53 each.
doctest::Approx near(double value) {
    return doctest::Approx(value).epsilon(1e-14);
}

}  // namespace

TEST_CASE("a matrix product: FLOPs, an output that is added to, at least its bytes") {
    CHECK(seconds_of(GemmCost{1000, 2000, 3000, DType::kBF16, false}) == near(kLaunch + 12.0));
    CHECK(seconds_of(GemmCost{1000, 2000, 3000, DType::kBF16, true}) == near(kLaunch + 12.0 + 0.016));
    // k = 1: 2 m n FLOPs take 2 s a giga, writing 2 m n bytes as long; reading the operands comes on top.
    CHECK(seconds_of(GemmCost{1000, 2000, 1, DType::kBF16, false}) == near(kLaunch + (2.0 * 2e6 + 2.0 * 3000) / 1e9));
}

TEST_CASE("a weight gradient that is stored in bf16 costs half the bytes") {
    RunConfiguration run = bf16();
    run.bf16_gradients = true;
    schedule::Operation operation;
    operation.cost = GemmCost{1000, 2000, 3000, DType::kBF16, true};
    CHECK(simulator::Costs(run, machine()).compute_seconds(operation) == near(kLaunch + 12.0 + 0.008));
}

TEST_CASE("attention: pairs that are seen, and another rate under the causal mask") {
    AttentionCost cost{
        .first_query = 512, .queries = 256, .first_key = 0, .keys = 512, .query_heads = 3, .kv_heads = 1};
    cost.head_dim = 16;
    const double window = 256.0 * 512 * 3 * 16;
    CHECK(seconds_of(cost) == near(kLaunch + 4 * window / 8e8));
    cost.backward = true;
    CHECK(seconds_of(cost) == near(kLaunch + 10 * window / 7e8));
    cost.first_key = 512;
    cost.keys = 256;
    const double own = 256.0 * 257 / 2 * 3 * 16;
    CHECK(seconds_of(cost) == near(kLaunch + 10 * own / 5e8));
    cost.backward = false;
    CHECK(seconds_of(cost) == near(kLaunch + 4 * own / 6e8));
}

TEST_CASE("passes and copies: bytes over the rate of their kind, engine and company") {
    CHECK(seconds_of(ElementwiseCost{3'000'000}) == near(kLaunch + 3e-3));
    CHECK(seconds_of(ElementwiseCost{9'000'000}, Kind::kGradientNorm) == near(kLaunch + 1e-2));
    CHECK(seconds_of(ElementwiseCost{11'000'000}, Kind::kZeroGradients) == near(kLaunch + 1e-2));
    CHECK(seconds_of(CopyCost{1'000'000, 1}, Kind::kKeepActivation) == near(kLaunch + 2e-3));
    CHECK(seconds_of(std::monostate{}, Kind::kRelease) == 0.0);
    const simulator::Costs costs(bf16(), machine());
    CHECK(costs.copy_seconds(Engine::kHostToDevice, 1'000'000, false) == near(kLaunch + 1e-2));
    CHECK(costs.copy_seconds(Engine::kHostToDevice, 6'000'000, true) == near(kLaunch + 1e-1));
    CHECK(costs.copy_seconds(Engine::kDeviceToHost, 9'000'000, false) == near(kLaunch + 1e-1));
    CHECK(costs.copy_seconds(Engine::kDeviceToHost, 5'000'000, true) == near(kLaunch + 1e-1));
}

TEST_CASE("a rate that the profile lacks is named") {
    HardwareProfile profile = machine();
    CHECK_FALSE(simulator::missing_rate(profile, DType::kBF16));
    profile.attention_backward_causal_flops.erase(DType::kBF16);
    CHECK(simulator::missing_rate(profile, DType::kBF16) == "attention_backward_causal.bf16");
    CHECK_FALSE(simulator::missing_rate(profile, DType::kF32));
    CHECK_THROWS_AS(simulator::Costs(bf16(), profile), FileError);
}

}  // namespace oomb::test
