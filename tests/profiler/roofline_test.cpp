#include "profiler/analysis/roofline.hpp"

#include <doctest/doctest.h>

#include "runtime/core/known_hardware.hpp"
#include "runtime/schedule/flops.hpp"
#include "runtime/schedule/generator.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

using schedule::Kind, schedule::Operation, schedule::OperationId;

// Numbers that are easy to divide by: 1 TFLOP/s, 1 GB/s of memory, 0.5 and 0.25 GB/s on the bus.
constexpr Roofs kRoofs{.flops = 1e12, .memory_bytes = 1e9, .to_device_bytes = 0.5e9, .to_host_bytes = 0.25e9};

schedule::StepShape small_step() {
    ModelShape model;
    model.layers = 2;
    model.hidden = 64;
    model.query_heads = 4;
    model.kv_heads = 2;
    model.head_dim = 16;
    model.ffn = 96;
    model.vocab = 100;
    RunConfiguration run;
    run.context_tokens = 256;
    run.chunk_tokens = 128;
    run.page_tokens = 64;
    run.window_tokens = 128;
    run.logit_tile_tokens = 128;
    run.compute = DType::kBF16;
    return {model, run};
}

// All operations of a kind, in program order.
class Of : public schedule::OperationSink {
  public:
    explicit Of(Kind kind) : kind_(kind) {}
    void take(const Operation& operation) override {
        if (operation.id.kind == kind_) {
            found.push_back(operation);
        }
    }
    std::vector<Operation> found;

  private:
    Kind kind_;
};

std::vector<Operation> operations_of(Kind kind) {
    const schedule::StepShape step = small_step();
    Of sink(kind);
    schedule::SequenceGenerator(step, 0, 1, sink).generate();
    return sink.found;
}

const RooflineRow* row_of(const std::vector<RooflineRow>& rows, Kind kind) {
    for (const RooflineRow& row : rows) {
        if (row.kind == kind) {
            return &row;
        }
    }
    return nullptr;
}

OperationMark mark(std::uint32_t call, OperationId id) {
    return {call, pack(id)};
}

Kernel kernel(std::uint32_t call, std::int64_t begin, std::int64_t length) {
    return {.begin_ns = begin, .end_ns = begin + length, .correlation = call};
}

}  // namespace

TEST_CASE("a product: FLOPs and bytes of its shape, times how often it was carried out") {
    // [128, 96] x [96, 64] in bf16: 2 * 128 * 64 * 96 FLOPs, (128 * 96 + 96 * 64 + 128 * 64) * 2 bytes
    const OperationId id = operations_of(Kind::kLinearDown).at(0).id;
    OperationId other_sequence = id;
    other_sequence.sequence = 3;
    const Profile profile =
        profile_of({mark(1, id), mark(2, id), kernel(1, 100, 20'000), kernel(2, 30'000, 30'000),  // one operation
                    mark(3, operations_of(Kind::kRope).at(0).id),                                 // gave no work
                    mark(4, other_sequence), kernel(4, 70'000, 50'000), kernel(9, 200'000, 5)});  // 9: of no operation
    const auto rows = operations_under_roof(profile, small_step(), kRoofs);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].name == "linear_down");
    CHECK(rows[0].count == 2);
    CHECK(rows[0].busy_ns == 100'000);
    CHECK(rows[0].flops == 2.0 * 2 * 128 * 64 * 96);
    const double bytes = 2.0 * (128 * 96 + 96 * 64 + 128 * 64) * 2;
    CHECK(rows[0].bytes == bytes);
    CHECK(rows[0].bound == Bound::kMemory);  // 3,146 ns of FLOPs, 106,496 ns of bytes
    CHECK(rows[0].least_ns == doctest::Approx(bytes));
    CHECK(rows[0].share_of_roof() == doctest::Approx(bytes / 1e5));
    CHECK(rows[0].flops_per_second() == doctest::Approx(rows[0].flops * 1e4));
}

TEST_CASE("attention: FLOPs as the schedule counts them, bound by compute where memory is fast") {
    const Operation operation = operations_of(Kind::kAttention).at(0);
    const Profile profile = profile_of({mark(1, operation.id), kernel(1, 1, 1'000)});
    Roofs roofs = kRoofs;
    roofs.memory_bytes = 1e15;
    const auto rows = operations_under_roof(profile, small_step(), roofs);
    REQUIRE(rows.size() == 1);
    const double flops = schedule::flops_of(operation.cost);
    // The own chunk of 128 tokens, causal: 128 * 129 / 2 pairs, 4 FLOPs per element of a head, 4 heads of 16.
    CHECK(flops == 4.0 * 16 * 4 * (128 * 129 / 2));
    CHECK(rows[0].flops == flops);
    CHECK(rows[0].bytes == 2.0 * 2 * 16 * 128 * (4 + 2));
    CHECK(rows[0].bound == Bound::kCompute);
    CHECK(rows[0].least_ns == doctest::Approx(flops / 1e3));
    roofs.flops = 0;  // not known
    CHECK(operations_under_roof(profile, small_step(), roofs)[0].least_ns == 0);
}

TEST_CASE("copies between the tiers: bytes that travelled, not those that the schedule allows for") {
    const auto writes = operations_of(Kind::kLoadTokens);
    REQUIRE_FALSE(writes.empty());
    const Profile profile = profile_of(
        {mark(1, writes[0].id),
         Copy{.begin_ns = 10, .end_ns = 1'010, .correlation = 1, .kind = CopyKind::kHostToDevice, .bytes = 300},
         Copy{.begin_ns = 500, .end_ns = 2'010, .correlation = 8, .kind = CopyKind::kHostToDevice, .bytes = 200},
         Copy{.begin_ns = 0, .end_ns = 4, .kind = CopyKind::kDeviceToHost, .bytes = 9}});
    const auto rows = operations_under_roof(profile, small_step(), kRoofs);
    const RooflineRow* row = row_of(rows, Kind::kLoadTokens);
    REQUIRE(row != nullptr);
    CHECK(row->bytes == 300);
    CHECK(row->bound == Bound::kBus);
    CHECK(row->least_ns == doctest::Approx(600));
    CHECK(row->share_of_roof() == doctest::Approx(0.6));
    // All copies of the direction: 500 bytes while at least one ran, 2,000 ns.
    const auto copies = copies_under_roof(profile, kRoofs);
    REQUIRE(copies.size() == 1);  // the other has no begin
    CHECK(copies[0].name == "copies host to device");
    CHECK(copies[0].busy_ns == 2'000);
    CHECK(copies[0].share_of_roof() == doctest::Approx(0.5));
}

TEST_CASE("the roofs of a machine, and what it does not say") {
    const HardwareProfile& h200 = *known_hardware("h200_sxm");
    const Roofs roofs = roofs_of(h200, DType::kBF16);
    CHECK(roofs.flops == h200.gemm_flops.at(DType::kBF16).per_second);
    CHECK(roofs.to_host_bytes == h200.device_to_host_bytes.per_second);
    CHECK(roofs_of(h200, DType::kF64).flops == 0);
}

}  // namespace oomb::profiler
