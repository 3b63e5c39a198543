// What can be worked out on paper, beside what the simulator says on a machine that has the rates of the formula and
// nothing else: the least chunk for overlap, the least time of a step, bytes that a step holds and moves.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/core/units.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

using schedule::Engine;
using schedule::Phase;
using schedule::Plan;
using simulator::Prediction;

constexpr double kOnPaper = 0.01;
constexpr double kNoTime = 1e40;  // a rate at which nothing takes time

// FLOPs and bytes per second; what is not named takes no time. One multiprocessor, so that no wave is half empty; tiles
// have 128 rows all the same, so chunks are multiples of that.
struct Rates {
    double gemm = kNoTime, attention_forward = kNoTime, attention_backward = kNoTime;
    double host_to_device = kNoTime, device_to_host = kNoTime;  // full duplex
};

HardwareProfile machine_with(const Rates& rates) {
    HardwareProfile profile;
    profile.name = "on paper";
    profile.multiprocessors.count = 1;
    profile.gemm_flops[DType::kBF16].per_second = rates.gemm;
    profile.attention_forward_flops[DType::kBF16][128].per_second = rates.attention_forward;
    profile.attention_forward_causal_flops[DType::kBF16][128].per_second = rates.attention_forward;
    profile.attention_backward_flops[DType::kBF16][128].per_second = rates.attention_backward;
    profile.attention_backward_causal_flops[DType::kBF16][128].per_second = rates.attention_backward;
    for (SourcedRate* rate :
         {&profile.gemm_sum_bytes, &profile.hbm_copy_bytes, &profile.hbm_read_bytes, &profile.hbm_write_bytes}) {
        rate->per_second = kNoTime;
    }
    profile.host_to_device_bytes.per_second = profile.host_to_device_both_bytes.per_second = rates.host_to_device;
    profile.device_to_host_bytes.per_second = profile.device_to_host_both_bytes.per_second = rates.device_to_host;
    return profile;
}

const ModelShape& model_7b() {
    static const ModelShape kModel = read_model_shape(model_file("qwen2.5-7b"));
    return kModel;
}

ModelShape of_layers(std::int64_t layers) {
    ModelShape model = model_7b();
    model.layers = layers;
    return model;
}

// Lean: every page on the host, nothing kept, gradients only.
RunConfiguration lean(std::int64_t context_tokens, std::int64_t chunk_tokens, std::int64_t window_tokens) {
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = context_tokens;
    run.chunk_tokens = chunk_tokens;
    run.window_tokens = window_tokens;
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.optimizer = false;
    return run;
}

Prediction predict(const ModelShape& model, const RunConfiguration& run, const Rates& rates) {
    return simulator::simulate_in_larger_pages(schedule::make_plan(model, run), machine_with(rates));
}

double compute_busy(const Prediction& prediction, Phase phase) {
    double seconds = 0;
    for (const simulator::Use& use :
         prediction.uses[static_cast<std::size_t>(phase)][static_cast<std::size_t>(Engine::kCompute)]) {
        seconds += use.seconds;
    }
    return seconds;
}

// Share of a phase in which compute waits.
double waiting(const Prediction& prediction, Phase phase) {
    return 1 - compute_busy(prediction, phase) / prediction.phase_seconds[static_cast<std::size_t>(phase)];
}

constexpr double kKvBytes = 2048;         // of a token and layer: K and V of 4 heads of 128, bf16
constexpr double kGradientBytes = 4096;   // the same in fp32
constexpr double kForwardFlops = 14336;   // of a (query, key) pair and layer: 4 x 28 heads x 128
constexpr double kBackwardFlops = 35840;  // five products instead of two
constexpr double kLayerFlops = 13.05e9;   // of a token, forward: products of all layers
constexpr double kHeadFlops = 1.09e9;

}  // namespace

TEST_CASE("sizes of a 7B model: tokens, pages, whole contexts, weights, gradients, states") {
    RunConfiguration run = lean(kMiB, 8192, 65536);
    run.offload = Offload::kNone;
    run.hbm_pages = {};
    run.optimizer = true;
    const Plan plan = schedule::make_plan(model_7b(), run);
    const schedule::PoolPlan& kv = *plan.pool(Tier::kHbm, PageClass::kKv);
    CHECK(kv.plane_bytes == std::vector<std::int64_t>{128 * 1024, 128 * 1024});  // a page: 256 KiB
    CHECK(kv.total_bytes() == 56 * kGiB);
    CHECK(kv.total_bytes() == kMiB * 57344);
    // Gradients in fp32; those of the last chunk are there for one layer at a time.
    CHECK(plan.pool(Tier::kHbm, PageClass::kKvGradient)->total_bytes() == 112 * kGiB - 27 * 8192 * 4096);
    const auto gb = [&](schedule::RegionName name) {
        return static_cast<double>(region_of(plan.regions, name).total_bytes()) / 1e9;
    };
    CHECK(gb(schedule::RegionName::kWeights) == doctest::Approx(15.2).epsilon(kOnPaper));
    CHECK(gb(schedule::RegionName::kGradients) == doctest::Approx(30.5).epsilon(kOnPaper));
    CHECK(gb(schedule::RegionName::kMoments) == doctest::Approx(61).epsilon(kOnPaper));
    CHECK(gb(schedule::RegionName::kMasterWeights) == doctest::Approx(30.5).epsilon(kOnPaper));
    run.split_masters = true;
    const Plan split = schedule::make_plan(model_7b(), run);
    CHECK(static_cast<double>(region_of(split.regions, schedule::RegionName::kMasterWeights).total_bytes()) / 1e9 ==
          doctest::Approx(15.2).epsilon(kOnPaper));
}

TEST_CASE("states on the host pass once each way: 91.4 GB, 1.8 s at 50 GB/s") {
    RunConfiguration run = lean(8192, 8192, 8192);
    run.optimizer = true;
    run.resident_shards = {};
    const Plan plan = schedule::make_plan(model_7b(), run);
    const simulator::OptimizerPrediction prediction =
        simulator::simulate_optimizer(plan, machine_with({.host_to_device = 50e9, .device_to_host = 50e9}));
    CHECK(static_cast<double>(prediction.update.of(Engine::kDeviceToHost).bytes) ==
          doctest::Approx(91.4e9).epsilon(kOnPaper));
    CHECK(prediction.seconds() == doctest::Approx(91.4 / 50).epsilon(kOnPaper));
}

// Of a fill in chunks of C tokens at the attention rate R and the bus rate B, all else for nothing: attention takes
// a C S / R per layer and history S, its K/V 2,048 S / B. From C = 2,048 R / (a B) on nothing waits, below the copies
// are the time. The context is long against chunk and window, so that beginnings do not count; the bus is slow, so that
// the least chunk is long against a tile.
TEST_CASE("the least chunk that hides K/V in the fill is bytes R / (a B)") {
    struct Machine {
        double bus, attention;
    };
    for (const Machine& one : {Machine{3e9, 650e12}, {2e9, 325e12}, {1.5e9, 325e12}, {0.75e9, 650e12}}) {
        const Rates rates{.attention_forward = one.attention, .host_to_device = one.bus, .device_to_host = one.bus};
        const double least = kKvBytes * one.attention / (kForwardFlops * one.bus);
        CAPTURE(least);
        constexpr std::int64_t page = 128;  // tokens: finer than what is compared
        const auto predict_in_chunks = [&](std::int64_t pages) {
            RunConfiguration run = lean(100 * pages * page, pages * page, 2 * pages * page);
            run.page_tokens = page;
            return predict(of_layers(2), run, rates);
        };
        for (const double share : {0.5, 0.9, 1.1, 2.0}) {
            CAPTURE(share);
            const std::int64_t pages = std::llround(share * least / static_cast<double>(page));
            const double of_least = static_cast<double>(pages * page) / least;
            CHECK(std::abs(waiting(predict_in_chunks(pages), Phase::kFill) - std::max(0.0, 1 - of_least)) <= kOnPaper);
        }
        std::int64_t waits = std::llround(0.5 * least / page), hides = std::llround(1.5 * least / page);
        while (hides - waits > 1) {
            const std::int64_t middle = (waits + hides) / 2;
            (waiting(predict_in_chunks(middle), Phase::kFill) < kOnPaper / 2 ? hides : waits) = middle;
        }
        CHECK(static_cast<double>(hides * page) == doctest::Approx(least).epsilon(kOnPaper));
    }
}

// In backward K/V and their gradients come, and the gradients go back: 6,144 bytes one way, 4,096 the other. With room
// for a third window the two directions overlap wholly.
TEST_CASE("the least chunk that hides K/V and gradients in backward is bytes R / (a B)") {
    const Rates rates{.attention_backward = 525e12, .host_to_device = 3e9, .device_to_host = 3e9};
    const double least = (kKvBytes + kGradientBytes) * rates.attention_backward / (kBackwardFlops * 3e9);
    for (const double share : {0.7, 1.25}) {
        CAPTURE(share);
        const std::int64_t page = 128, pages = std::llround(share * least / page);
        RunConfiguration run = lean(400 * pages * page, pages * page, 2 * pages * page);
        run.page_tokens = page;
        const double of_least = static_cast<double>(pages * page) / least;
        const double found = waiting(predict(of_layers(2), run, rates), Phase::kBackward);
        CHECK(std::abs(found - std::max(0.0, 1 - of_least)) <= kOnPaper);
    }
}

namespace {

// A row of the table of floors: products of so many N per token, attention forward so many times.
struct Way {
    const char* name;
    Keep keep;
    bool held;
    double products;
    int forwards;
    bool last_cheaper;  // the last chunk, which has no fill, saves a forward
};

constexpr Way kLean{"lean", Keep::kNone, false, 10, 2, true};
constexpr Way kBothKept{"inputs and outputs kept", Keep::kInputAndOutput, false, 8, 1, false};
constexpr Way kAllHeld{"all kept", Keep::kNone, true, 6, 1, false};

constexpr double kGemm = 655e12, kForward = 592e12, kBackward = 525e12;  // sustained on an H200

double pairs(double tokens) {
    return tokens * (tokens + 1) / 2;
}

// Every layer alike, everything that is done again done whole.
double floor_seconds(const Way& way, double tokens, double chunk) {
    const double last = way.last_cheaper ? std::min(chunk, tokens) : 0;
    const double layers = (way.products * tokens - 2 * last) / 2 * kLayerFlops;
    const double forward = way.forwards * pairs(tokens) - (way.forwards - 1) * (pairs(tokens) - pairs(tokens - last));
    return (layers + 3 * tokens * kHeadFlops) / kGemm + 28 * forward * kForwardFlops / kForward +
           28 * pairs(tokens) * kBackwardFlops / kBackward;
}

// What the schedule leaves out of that. Backward needs no down projection again; a second forward and backward find K/V
// there. Of the last layer a fill needs K/V, with its output kept the queries too; a second forward ends after its
// attention, whose down projection the head needs later.
double left_out_seconds(const Way& way, double tokens, double chunk) {
    const double hidden = 3584, ffn = 18944, kv = 2 * hidden * 512, query = hidden * hidden;
    const double rest = query + 3 * hidden * ffn, down = hidden * ffn;
    const double filled = tokens - std::min(chunk, tokens);
    if (way.held) {
        return 0;
    }
    double matrices = 28 * tokens * (down + kv) + tokens * (rest - down);
    double attention = 0;
    if (way.keep == Keep::kNone) {
        matrices += 28 * filled * kv + filled * (query + rest);
        attention = pairs(filled);
    }
    return 2 * matrices / kGemm + attention * kForwardFlops / kForward;
}

double simulated_floor(const Way& way, std::int64_t tokens, std::int64_t chunk) {
    RunConfiguration run = lean(tokens, chunk, 65536);
    run.offload = Offload::kNone;
    run.hbm_pages = {};
    run.keep = way.keep;
    run.held_chunks = way.held ? Amount{Amount::Mode::kAll, 0} : Amount{};
    return predict(model_7b(), run, {.gemm = kGemm, .attention_forward = kForward, .attention_backward = kBackward})
        .seconds;
}

}  // namespace

TEST_CASE("the floors of a step: products and attention at sustained rates") {
    for (const Way& way : {kLean, kBothKept, kAllHeld}) {
        for (const std::int64_t tokens : {8, 32, 64, 128, 256, 512}) {
            CAPTURE(way.name);
            CAPTURE(tokens);
            const auto context = static_cast<double>(tokens * 1024);
            const double whole = floor_seconds(way, context, 8192), less = left_out_seconds(way, context, 8192);
            const double found = simulated_floor(way, tokens * 1024, 8192);
            CHECK(found == doctest::Approx(whole - less).epsilon(kOnPaper));
        }
    }
}

// Lean, every page on the host: history comes in fill (but in the last layer), forward and backward, in the latter two
// the chunk's own K/V as well; K/V go to the host once. Gradients come for what a later chunk has touched and go back
// after every touch. What the ring still holds does not come again: the history is long against it.
TEST_CASE("bytes of a dense step on the bus") {
    constexpr std::int64_t kChunk = 8192, kLayers = 28;
    for (const std::int64_t chunks : {16, 32, 64}) {
        CAPTURE(chunks);
        const Prediction prediction = predict(model_7b(), lean(chunks * kChunk, kChunk, 2 * kChunk), {});
        const std::int64_t history = chunks * (chunks - 1) / 2 * kChunk;  // tokens, over all chunks
        const std::int64_t earlier = (chunks - 1) * kChunk;               // all chunks but the last
        const std::int64_t kv = (kLayers - 1) * (history - earlier) + kLayers * 2 * (history + earlier);
        const double up = static_cast<double>(kv) * kKvBytes + static_cast<double>(kLayers * history) * kGradientBytes;
        CHECK(static_cast<double>(prediction.of(Engine::kHostToDevice).bytes) == doctest::Approx(up).epsilon(kOnPaper));
        const double down = static_cast<double>(kLayers) * (static_cast<double>(chunks * kChunk) * kKvBytes +
                                                            static_cast<double>(history) * kGradientBytes);
        CHECK(static_cast<double>(prediction.of(Engine::kDeviceToHost).bytes) == down);
    }
}

// docs/prediction.md sets the configuration beside what others publish of it.
TEST_CASE(
    "chunks of 4,096, pages of 128, dense or 64 of them: 31.6 and 31.8 GiB at 256K; mean keys are all that grows") {
    const auto peak = [](std::int64_t context_tokens, std::int64_t top_k) {
        RunConfiguration run = lean(context_tokens, 4096, 16384);
        run.bf16_gradients = true;
        if (top_k > 0) {
            run.attention = AttentionMode::kTopK;
            run.top_k = top_k;
        }
        return schedule::make_plan(model_7b(), run).peak_bytes(Tier::kHbm);
    };
    const std::int64_t more = 256 * kKiB;
    CHECK(std::abs(static_cast<double>(peak(256 * kKiB, 0)) / kGiB - 31.6) <= 0.05);   // as printed
    CHECK(std::abs(static_cast<double>(peak(256 * kKiB, 64)) / kGiB - 31.8) <= 0.05);  // as printed
    CHECK(peak(256 * kKiB + more, 0) == peak(256 * kKiB, 0));
    CHECK(peak(256 * kKiB + more, 64) - peak(256 * kKiB, 64) == more / 128 * 28672);
}

}  // namespace oomb::test
