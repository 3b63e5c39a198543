#include "simulator/costs/costs.hpp"

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

double seconds_of(const schedule::Cost& cost, Kind kind = Kind::kSwiglu, const HardwareProfile& profile = machine()) {
    schedule::Operation operation;
    operation.id.kind = kind;
    operation.cost = cost;
    return simulator::Costs(bf16(), profile).compute_seconds(operation);
}

constexpr double kLaunch = 1e-6;

// Every expectation is a sum of a few quotients: some roundings of 2^-53 each.
doctest::Approx near(double value) {
    return doctest::Approx(value).epsilon(1e-14);
}

}  // namespace

TEST_CASE("a matrix product: waves of tiles, an output that is added to, at least its bytes") {
    // 8 x 4 tiles of 128 x 256 on 4 multiprocessors: 8 full waves.
    const GemmCost full{1024, 1024, 3000, DType::kBF16, false};
    CHECK(seconds_of(full) == near(kLaunch + 2.0 * 1024 * 1024 * 3000 / 1e9));
    // One row more begins 4 tiles more, a ninth wave.
    CHECK(seconds_of(GemmCost{1025, 1024, 3000, DType::kBF16, false}) ==
          near(kLaunch + 2.0 * (9 * 4) * 128 * 256 * 3000 / 1e9));
    CHECK(seconds_of(GemmCost{1024, 1024, 3000, DType::kBF16, true}) ==
          near(kLaunch + 2.0 * 1024 * 1024 * 3000 / 1e9 + 8.0 * 1024 * 1024 / 1e9));
    HardwareProfile profile = machine();
    profile.gemm_flops.at(DType::kBF16).wave_seconds = 0.25;
    CHECK(seconds_of(full, Kind::kSwiglu, profile) == near(kLaunch + 2.0 * 1024 * 1024 * 3000 / 1e9 + 8 * 0.25));
    // k = 1: 2 m n FLOPs take 2 s a giga, writing 2 m n bytes as long; the operands come on top.
    CHECK(seconds_of(GemmCost{1024, 1024, 1, DType::kBF16, false}) == near((2.0 * 1024 * 1024 + 2.0 * 2048) / 1e9));
}

TEST_CASE("a matrix product of few tiles: narrow ones, and its sum in parts unless runs are deterministic") {
    // A tile of 128 x 64 fills a multiprocessor with 1.3 times the effort; one of 128 x 256 would compute 4 times as
    // much.
    const GemmCost narrow{512, 64, 512, DType::kBF16, false};
    CHECK(seconds_of(narrow) == near(kLaunch + 1.3 * 2 * 512 * 64 * 512 / 1e9));
    // One tile on four multiprocessors: k in 4 parts, 1.08 times the effort.
    const GemmCost deep{128, 256, 4096, DType::kBF16, false};
    const double whole = 2.0 * 128 * 256 * 4096 / 1e9;
    CHECK(seconds_of(deep) == near(kLaunch + 1.08 * whole));
    RunConfiguration run = bf16();
    run.deterministic = true;
    schedule::Operation operation;
    operation.cost = deep;
    // 4 tiles of 128 x 64 on all four.
    CHECK(simulator::Costs(run, machine()).compute_seconds(operation) == near(kLaunch + 1.3 * whole));
}

TEST_CASE("a weight gradient that is stored in bf16 costs half the bytes") {
    RunConfiguration run = bf16();
    run.bf16_gradients = true;
    schedule::Operation operation;
    operation.cost = GemmCost{1024, 1024, 3000, DType::kBF16, true};
    CHECK(simulator::Costs(run, machine()).compute_seconds(operation) ==
          near(kLaunch + 2.0 * 1024 * 1024 * 3000 / 1e9 + 4.0 * 1024 * 1024 / 1e9));
}

TEST_CASE("attention: waves of tiles, bytes around the library's kernel, other rates under the causal mask") {
    AttentionCost cost{
        .first_query = 512, .queries = 256, .first_key = 0, .keys = 512, .query_heads = 2, .kv_heads = 1};
    cost.head_dim = 64;
    HardwareProfile profile = machine();
    for (HeadRates* rates : {&profile.attention_forward_flops, &profile.attention_backward_flops,
                             &profile.attention_forward_causal_flops, &profile.attention_backward_causal_flops}) {
        rates->at(DType::kBF16).at(64).wave_seconds = 0.5;
    }
    const auto forward = [&] { return seconds_of(cost, Kind::kSwiglu, profile); };
    // 2 tiles of queries x 2 heads: one wave of 4.
    const double window = 256.0 * 512 * 2 * 64, query_bytes = 256.0 * 2 * 64, key_bytes = 2.0 * 512 * 64;
    CHECK(forward() == near(kLaunch + 4 * window / 8e8 + 0.5));
    cost.backward = true;  // 4 tiles of keys x 2 heads: two waves
    CHECK(forward() == near(kLaunch + 10 * window / 7e8 + 2 * 0.5 + (query_bytes * 24 + key_bytes * 10) / 1e9));
    cost.query_heads = 3;  // 12 tiles: full waves; forward 6 tiles in 2 waves of 4
    cost.backward = false;
    CHECK(forward() == near(kLaunch + 4 * (8.0 * 128) * 512 * 64 / 8e8 + 2 * 0.5));
    cost.query_heads = 2;
    cost.first_key = 512;
    cost.keys = 256;
    // A row sees 128.5 keys on average, its tile computes 64 more.
    const double own = 256.0 * 2 * (128.5 + 64) * 64;
    CHECK(forward() == near(kLaunch + 4 * own / 6e8 + 0.5 + query_bytes * 6 / 1e9));
    cost.backward = true;
    CHECK(forward() == near(kLaunch + 10 * own / 5e8 + 0.5 + (query_bytes * 24 + 2.0 * 256 * 64 * 10) / 1e9));
}

TEST_CASE("attention of a head size that the profile lacks: between its neighbours, beyond them the nearest") {
    HardwareProfile profile = machine();
    profile.attention_forward_flops[DType::kBF16] = {{64, {4e8, 0.0, "made up"}}, {128, {8e8, 0.0, "made up"}}};
    const auto per_flop = [&](std::int64_t head_dim) {
        AttentionCost cost{
            .first_query = 512, .queries = 256, .first_key = 0, .keys = 512, .query_heads = 2, .kv_heads = 1};
        cost.head_dim = head_dim;
        return (seconds_of(cost, Kind::kSwiglu, profile) - kLaunch) /
               (4.0 * 256 * 512 * 2 * static_cast<double>(head_dim));
    };
    CHECK(per_flop(32) == near(1 / 4e8));
    CHECK(per_flop(96) == near((1 / 4e8 + 1 / 8e8) / 2));
    CHECK(per_flop(256) == near(1 / 8e8));
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

TEST_CASE("passes of a rate of their own; short rows of a norm") {
    HardwareProfile profile = machine();
    profile.pass_bytes["norm"] = {2e9, "made up"};
    schedule::Operation norm;
    norm.id.kind = Kind::kInputNorm;
    norm.rows = 1000;
    const auto seconds = [&](std::int64_t width) {
        norm.cost = ElementwiseCost{2 * norm.rows * width * 2};
        return simulator::Costs(bf16(), profile).compute_seconds(norm);
    };
    CHECK(seconds(4096) == near(kLaunch + 2.0 * 1000 * 4096 * 2 / 2e9));
    CHECK(seconds(576) == near(seconds(1024)));
    profile.pass_bytes.clear();
    CHECK(seconds(4096) == near(kLaunch + 2.0 * 1000 * 4096 * 2 / 1e9));
}

TEST_CASE("a rate that the profile lacks is named") {
    HardwareProfile profile = machine();
    CHECK_FALSE(simulator::missing_rate(profile, DType::kBF16, false));
    profile.attention_backward_causal_flops.erase(DType::kBF16);
    CHECK(simulator::missing_rate(profile, DType::kBF16, false) == "attention_backward_causal.bf16");
    CHECK_FALSE(simulator::missing_rate(profile, DType::kBF16, true));
    CHECK_FALSE(simulator::missing_rate(profile, DType::kF32, false));
    CHECK_THROWS_AS(simulator::Costs(bf16(), profile), FileError);
    profile = machine();
    profile.attention_backward_deterministic_flops.clear();
    CHECK_FALSE(simulator::missing_rate(profile, DType::kBF16, false));
    CHECK(simulator::missing_rate(profile, DType::kBF16, true) == "attention_backward_deterministic.bf16");
}

}  // namespace oomb::test
