// Laws of a predicted step beyond those of clock_test.cpp: one rate at a time, memory, what pages do on the bus, and
// how engines fill their time.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "runtime/core/known_hardware.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/observer.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

using schedule::Engine;
using simulator::Prediction;
using testing::RandomStep;
using testing::RandomSteps;

// Sums of at most some thousand terms, each rounded once.
constexpr double kRounding = 1e-11;

Prediction predict(const RandomStep& step, const HardwareProfile& profile,
                   simulator::StepObserver* observer = nullptr) {
    return simulator::simulate_step(schedule::make_plan(step.model, step.run), profile, observer);
}

struct Faster {
    const char* what;
    std::function<void(HardwareProfile&)> apply;
};

void twice(std::map<DType, TileRate>& rates) {
    for (auto& [dtype, rate] : rates) {
        rate.per_second *= 2;
    }
}

void twice(HeadRates& rates) {
    for (auto& [dtype, heads] : rates) {
        for (auto& [head_dim, rate] : heads) {
            rate.per_second *= 2;
        }
    }
}

const std::vector<Faster>& each_alone() {
    static const std::vector<Faster> kEach{
        {"gemm", [](HardwareProfile& p) { twice(p.gemm_flops); }},
        {"attention forward", [](HardwareProfile& p) { twice(p.attention_forward_flops); }},
        {"attention backward", [](HardwareProfile& p) { twice(p.attention_backward_flops); }},
        {"causal forward", [](HardwareProfile& p) { twice(p.attention_forward_causal_flops); }},
        {"causal backward", [](HardwareProfile& p) { twice(p.attention_backward_causal_flops); }},
        {"hbm copy", [](HardwareProfile& p) { p.hbm_copy_bytes.per_second *= 2; }},
        {"hbm read", [](HardwareProfile& p) { p.hbm_read_bytes.per_second *= 2; }},
        {"hbm write", [](HardwareProfile& p) { p.hbm_write_bytes.per_second *= 2; }},
        {"host to device",
         [](HardwareProfile& p) {
             p.host_to_device_bytes.per_second *= 2;
             p.host_to_device_both_bytes.per_second *= 2;
         }},
        {"device to host",
         [](HardwareProfile& p) {
             p.device_to_host_bytes.per_second *= 2;
             p.device_to_host_both_bytes.per_second *= 2;
         }},
        {"launch", [](HardwareProfile& p) { p.launch.seconds /= 2; }}};
    return kEach;
}

// How much slower the worst of random steps becomes when one rate is doubled.
double worst_slowdown(HardwareProfile slow, std::uint64_t seed) {
    RandomSteps random(seed);
    double worst = 0;
    std::map<std::string, int> helped;
    for (int i = 0; i < 120; ++i) {
        const RandomStep step = random.next();
        const double before = predict(step, slow).seconds;
        for (const Faster& faster : each_alone()) {
            HardwareProfile fast = slow;
            faster.apply(fast);
            const double after = predict(step, fast).seconds;
            worst = std::max(worst, after / before - 1);
            helped[faster.what] += after < before ? 1 : 0;
        }
    }
    for (const Faster& faster : each_alone()) {
        CAPTURE(faster.what);
        CHECK(helped[faster.what] > 5);
    }
    return worst;
}

}  // namespace

// Where an operation's time does not depend on when it begins, a step is the longest path through operations whose
// order never changes: nothing that becomes faster can make it longer.
TEST_CASE("with a full-duplex bus no rate that doubles makes a step slower") {
    HardwareProfile duplex = machine();
    duplex.host_to_device_both_bytes = duplex.host_to_device_bytes;
    duplex.device_to_host_both_bytes = duplex.device_to_host_bytes;
    CHECK(worst_slowdown(duplex, 901) <= kRounding);
}

// A copy takes the rate of both directions, for its whole length, where it begins beside one of the other direction.
// What is faster may move a copy to such a moment: the one way in which a step can become slower. 0.02 % is the worst
// found on this machine, whose bus loses 40 % in company.
TEST_CASE("with a bus that is slower in company a rate that doubles costs little at worst") {
    const double worst = worst_slowdown(machine(), 901);
    CHECK(worst <= 1e-3);
}

// With more pages at home in HBM fewer travel, but others lie in the ring when a window is asked for: a fetch may wait
// for another reader, or come at a worse moment. On these steps of a few windows that costs 1.5 % at worst; a step that
// computes anything does not notice.
TEST_CASE("more GPU memory for K/V pages is never slower") {
    RandomSteps random(902);
    int fewer_copies = 0;
    double worst = 0;
    for (int i = 0; i < 150; ++i) {
        RandomStep step = random.next();
        step.run.offload = Offload::kHost;
        step.run.resident_shards = {Amount::Mode::kAll, 0};
        const auto peak = [&](HbmPages pages) {
            step.run.gpu_memory_bytes = 0;
            step.run.hbm_pages = pages;
            return schedule::make_plan(step.model, step.run).peak_bytes(Tier::kHbm);
        };
        const std::int64_t least = peak({HbmPages::Mode::kRing, 0}), most = peak({HbmPages::Mode::kAuto, 0});
        double before = INFINITY;
        std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
        for (const int tenths : {0, 2, 5, 8, 10}) {
            step.run.gpu_memory_bytes = least + (most - least) * tenths / 10;
            const Prediction now = predict(step, machine());
            worst = std::max(worst, now.seconds / before - 1);
            fewer_copies += now.of(Engine::kHostToDevice).bytes < bytes ? 1 : 0;
            before = now.seconds;
            bytes = now.of(Engine::kHostToDevice).bytes;
        }
    }
    CHECK(worst <= 0.02);
    CHECK(fewer_copies > 300);
}

TEST_CASE("more host memory is never slower for the search") {
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = 64 * kKiB;
    run.chunk_tokens = 8192;
    run.window_tokens = 32768;
    run.offload = Offload::kHost;
    run.keep = Keep::kAuto;
    run.kept_pages = run.held_chunks = run.resident_shards = {Amount::Mode::kAuto, 0};
    run.gpu_memory_bytes = 139 * kGiB;
    double before = INFINITY, first = 0;
    for (const std::int64_t gib : {4, 16, 32, 64, 125}) {
        CAPTURE(gib);
        run.host_memory_bytes = gib * kGiB;
        const schedule::Plan plan = simulator::plan_for_time(model, run, default_hardware());
        REQUIRE(shortfalls(plan).empty());
        const double seconds = simulator::simulate_step(plan, default_hardware()).seconds;
        CHECK(seconds <= before * (1 + 2 * simulator::kEqualTimes));
        before = std::min(before, seconds);
        first = first > 0 ? first : seconds;
    }
    CHECK(before < 0.98 * first);
}

namespace {

// Follows frames of both tiers, by class: what was changed and not yet written, what the host holds.
class PagesOnTheBus : public simulator::StepObserver {
  public:
    void begins(const issue::Issuer& /*issuer*/) override {}
    void ran(const issue::IssuedOperation& issued, double /*begin*/, double /*end*/,
             const issue::Movement& movement) override {
        std::int64_t travelling = 0;
        for (std::size_t i = 0; i < issued.grants.size(); ++i) {
            const paging::Grant& grant = issued.grants[i];
            Frames& frames = frames_[static_cast<int>(grant.page_class)];
            for (const paging::PageCopy& copy : grant.to_hbm) {
                CHECK(frames.on_host.contains(copy.host_frame));  // what is fetched was written
                frames.changed.erase(copy.hbm_frame);
            }
            for (const paging::PageCopy& copy : grant.to_host) {
                CHECK(frames.changed.erase(copy.hbm_frame) == 1);  // once for every time that it was added to
                frames.on_host.insert(copy.host_frame);
            }
            changed_by(issued.operation.requests[i].use, grant, frames);
            travelling += std::ssize(grant.to_hbm) + std::ssize(grant.to_host);
        }
        const schedule::Kind kind = issued.operation.id.kind;
        if (is_page_copy(kind)) {
            CHECK(movement.pages == travelling);
            pages += travelling;
        } else {
            CHECK(travelling == 0);
        }
    }
    std::int64_t pages = 0;

  private:
    struct Frames {
        std::set<std::int32_t> changed, on_host;  // HBM frames, host frames
    };

    static void changed_by(PageUse use, const paging::Grant& grant, Frames& frames) {
        if (grant.tier == Tier::kHbm && (use == PageUse::kBirth || use == PageUse::kAccumulate)) {
            frames.changed.insert(grant.frames.begin(), grant.frames.end());
        }
        for (const std::int32_t frame : grant.freed_hbm) {
            frames.changed.erase(frame);
        }
        for (const std::int32_t frame : grant.freed_host) {
            frames.on_host.erase(frame);
        }
    }

    Frames frames_[kPageClasses];
};

// One engine's operations follow one another, without overlap, and fill what the prediction says.
class Occupancy : public simulator::StepObserver {
  public:
    void begins(const issue::Issuer& /*issuer*/) override {}
    void ran(const issue::IssuedOperation& issued, double begin, double end,
             const issue::Movement& /*movement*/) override {
        Lane& lane = lanes[static_cast<std::size_t>(issued.operation.engine)];
        CHECK(begin >= lane.end);
        CHECK(end >= begin);
        lane.busy += end - begin;
        lane.idle += begin - lane.end;
        lane.end = end;
    }
    struct Lane {
        double busy = 0, idle = 0, end = 0;
    };
    Lane lanes[schedule::kEngines];
};

}  // namespace

TEST_CASE("what is fetched was written, what is written had been changed since") {
    RandomSteps random(903, {.local = true});
    std::int64_t pages = 0;
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        PagesOnTheBus bus;
        predict(step, machine(), &bus);
        pages += bus.pages;
    }
    CHECK(pages > 10'000);
}

TEST_CASE("busy and idle of every engine are the step, operations of one engine never overlap") {
    RandomSteps random(904);
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        Occupancy occupancy;
        const Prediction prediction = predict(step, machine(), &occupancy);
        double last = 0;
        for (int engine = 0; engine < schedule::kEngines; ++engine) {
            const Occupancy::Lane& lane = occupancy.lanes[engine];
            CHECK(prediction.of(static_cast<Engine>(engine)).seconds == doctest::Approx(lane.busy).epsilon(kRounding));
            CHECK(lane.busy + lane.idle + (prediction.seconds - lane.end) ==
                  doctest::Approx(prediction.seconds).epsilon(kRounding));
            last = std::max(last, lane.end);
        }
        CHECK(last == prediction.seconds);
        // Compute is busy, waits for copies, or for the loss's host (before the update) and the last store (after it).
        const Occupancy::Lane& compute = occupancy.lanes[static_cast<int>(Engine::kCompute)];
        CHECK(compute.busy + prediction.exposed_copy_seconds <= prediction.seconds * (1 + kRounding));
    }
}

}  // namespace oomb::test
