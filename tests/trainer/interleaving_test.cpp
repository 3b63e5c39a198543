// The schedule is complete: any order of execution that the waits allow gives the same bits, with ended buffers
// poisoned and every unordered access an error. So do offload, HBM budgets, what is kept and where optimizer states
// lie, for they change no operand.

#include <set>

#include "tests/schedule/random_step.hpp"
#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

template <class T>
constexpr DType kType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;

constexpr int kShufflesPerWay = 12;
constexpr int kThreadedPerWay = 2;

template <class T>
void check_all_orders(const std::vector<Way>& ways) {
    for (const Way& way : ways) {
        CAPTURE(to_text(way));
        const StepCase step(step_run(kType<T>, way));
        const auto expected = step.run<T>();
        for (int seed = 0; seed < kShufflesPerWay; ++seed) {
            CAPTURE(seed);
            const auto depth = static_cast<std::size_t>(2 + 17 * (seed % 11));
            const auto outcome = step.run<T>(
                {.order = Order::kShuffled, .seed = static_cast<std::uint64_t>(seed), .shuffle_depth = depth});
            CHECK(same_bits(outcome.gradients, expected.gradients));
            CHECK(same_bits(outcome.weights, expected.weights));
            CHECK(outcome.result.loss == expected.result.loss);
        }
        for (int run = 0; run < kThreadedPerWay; ++run) {
            const auto outcome = step.run<T>({.order = Order::kThreads});
            CHECK(same_bits(outcome.gradients, expected.gradients));
            CHECK(same_bits(outcome.weights, expected.weights));
        }
    }
}

TEST_CASE("shuffled and threaded executions give the bits of program order: fp64") {
    check_all_orders<double>(all_ways());
    check_all_orders<double>(top_k_ways());
    check_all_orders<double>(local_ways());
}

TEST_CASE("shuffled and threaded executions give the bits of program order: fp32") {
    check_all_orders<float>(all_ways());
    check_all_orders<float>(top_k_ways());
    check_all_orders<float>(local_ways());
}

TEST_CASE("under the ring every page travels") {
    const StepCase step(step_run(DType::kF64, Offload::kHost, Keep::kNone));
    std::int64_t moved[2][kPageClasses] = {};
    step.run<double>({.tamper = [&](const issue::IssuedOperation& operation) {
        for (const auto& grant : operation.grants) {
            moved[0][static_cast<int>(grant.page_class)] += static_cast<std::int64_t>(grant.to_hbm.size());
            moved[1][static_cast<int>(grant.page_class)] += static_cast<std::int64_t>(grant.to_host.size());
        }
    }});
    const std::int64_t pages = schedule::StepShape(step.plan.model, step.plan.run).total_pages();
    CHECK(step.plan.resident_pages == 0);
    for (int page_class = 0; page_class < 2; ++page_class) {
        CHECK(moved[0][page_class] > pages / 2);
        CHECK(moved[1][page_class] > pages / 2);
    }
}

// The same attention, everything in HBM and nothing kept.
Way plain(const Way& way) {
    return {.top_k = way.top_k, .local_window = way.local_window, .sinks = way.sinks};
}

template <class T>
void check_all_budgets(const std::vector<Way>& ways) {
    const auto expected = StepCase(step_run(kType<T>, plain(ways[0]))).template run<T>();
    for (const Way& way : ways) {
        CAPTURE(to_text(way));
        const StepCase step(step_run(kType<T>, way));
        const auto found = step.run<T>();
        CHECK(same_bits(found.gradients, expected.gradients));
        CHECK(same_bits(found.weights, expected.weights));
        for (std::int64_t pages = 1; way.offload == Offload::kHost && pages < 16; pages += 3) {
            CAPTURE(pages);
            RunConfiguration run = step.plan.run;
            run.hbm_pages = {HbmPages::Mode::kCount, pages};
            const auto outcome = StepCase(run).run<T>({.order = Order::kShuffled, .seed = 1});
            CHECK(same_bits(outcome.gradients, expected.gradients));
            CHECK(same_bits(outcome.weights, expected.weights));
            CHECK(outcome.result.loss == expected.result.loss);
        }
    }
}

TEST_CASE("offload, HBM pages and what is kept change no bit: fp64") {
    check_all_budgets<double>(all_ways());
    check_all_budgets<double>(top_k_ways());
    check_all_budgets<double>(local_ways());
}

TEST_CASE("offload, HBM pages and what is kept change no bit: fp32") {
    check_all_budgets<float>(all_ways());
    check_all_budgets<float>(top_k_ways());
    check_all_budgets<float>(local_ways());
}

template <class T>
void check_against_plain(RandomStep step, std::uint64_t seed) {
    const std::string plan = to_json(schedule::make_plan(step.model, step.run));
    CAPTURE(plan);
    const auto outcome = StepCase(step.run, step.model).run<T>({.order = Order::kShuffled, .seed = seed});
    step.run.offload = Offload::kNone;
    step.run.hbm_pages = {};
    step.run.keep = Keep::kNone;
    step.run.held_chunks = {};
    step.run.resident_shards = kAllOfThem;
    const auto expected = StepCase(step.run, step.model).run<T>();
    CHECK(same_bits(outcome.gradients, expected.gradients));
    CHECK(same_bits(outcome.weights, expected.weights));
}

TEST_CASE("random models, chunks, windows and budgets: shuffled and offloaded as in order and without") {
    RandomSteps random(90, {.layers = 3,
                            .chunks = 6,
                            .pages_per_chunk = 3,
                            .page_tokens = {8, 16},
                            .any_device = false,
                            .top_k = true,
                            .local = true});
    for (std::uint64_t i = 0; i < 100; ++i) {
        RandomStep step = random.next();
        if (step.run.compute == DType::kBF16) {
            check_against_plain<BFloat16>(step, i);
        } else {
            step.run.compute = step.run.accumulator = DType::kF32;
            check_against_plain<float>(step, i);
        }
    }
}

// Homes of kept pages in both tiers: some copied by the compute engine, some by the copy engines.
void check_kept_homes(const std::vector<Way>& ways) {
    const auto expected = StepCase(step_run(DType::kF64, plain(ways[0]))).run<double>();
    for (const Way& way : ways) {
        RunConfiguration run = step_run(DType::kF64, way);
        const schedule::Plan ring = schedule::make_plan(busy_shape(), run);
        if (ring.kept_host < 2) {
            continue;
        }
        CAPTURE(to_text(way));
        const std::int64_t page_bytes = ring.pool(Tier::kHost, PageClass::kActivation)->total_bytes() / ring.kept_host;
        run.hbm_pages.mode = HbmPages::Mode::kAuto;
        run.gpu_memory_bytes = ring.peak_bytes(Tier::kHbm) + ring.kept_host / 2 * page_bytes + 1000;
        const StepCase step(run);
        CHECK(step.plan.kept_hbm > 0);
        CHECK(step.plan.kept_host > 0);
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            CHECK(same_bits(step.run<double>({.order = Order::kShuffled, .seed = seed}).gradients, expected.gradients));
        }
    }
}

TEST_CASE("kept pages at home in HBM and on the host change no bit, shuffled") {
    check_kept_homes(all_ways());
    check_kept_homes(top_k_ways());
    check_kept_homes(local_ways());
}

void check_automatic_budget(const Way& way) {
    RunConfiguration run = step_run(DType::kF64, way);
    const StepCase ring(run);
    const auto expected = ring.run<double>();
    run.hbm_pages.mode = HbmPages::Mode::kAuto;
    const std::int64_t all = StepCase(run).plan.peak_bytes(Tier::kHbm);
    run.gpu_memory_bytes = (ring.plan.peak_bytes(Tier::kHbm) + all) / 2;
    const StepCase between(run);
    CHECK(between.plan.resident_pages > 0);
    CHECK(between.plan.resident_pages < schedule::StepShape(busy_shape(), run).total_pages());
    CHECK(same_bits(between.run<double>().gradients, expected.gradients));
}

TEST_CASE("an automatic budget changes no bit") {
    check_automatic_budget({.offload = Offload::kHost});
    check_automatic_budget({.offload = Offload::kHost, .top_k = 2});
    check_automatic_budget({.offload = Offload::kHost, .local_window = 21, .sinks = 8});
}

void check_automatic_choices(const Way& way) {
    RunConfiguration run = step_run(DType::kF64, way);
    const StepCase lean(run);
    const auto expected = lean.run<double>();
    run.hbm_pages.mode = HbmPages::Mode::kAuto;
    run.keep = Keep::kAuto;
    run.held_chunks = run.kept_pages = {Amount::Mode::kAuto, 0};
    const std::int64_t all = schedule::make_plan(busy_shape(), run).peak_bytes(Tier::kHbm);
    const std::int64_t least = lean.plan.peak_bytes(Tier::kHbm), host = lean.plan.peak_bytes(Tier::kHost);
    std::set<std::string> chosen;
    for (int share = 0; share <= 16; ++share) {
        for (const std::int64_t more_host : {0, 1 << 15}) {
            run.gpu_memory_bytes = least + (all - least) * share / 16;
            run.host_memory_bytes = host + more_host;
            const StepCase step(run);
            CHECK(schedule::shortfalls(step.plan).empty());
            chosen.insert(fmt::format("{} {}", name_of(step.plan.run.keep), to_text(step.plan.run.held_chunks)));
            CHECK(same_bits(step.run<double>({.order = Order::kShuffled, .seed = 1}).gradients, expected.gradients));
        }
    }
    CHECK(chosen.size() >= 4);
}

TEST_CASE("what is chosen automatically changes no bit, and shorter sequences run in the same plan") {
    check_automatic_choices({.offload = Offload::kHost});
    check_automatic_choices({.offload = Offload::kHost, .top_k = 2});
    check_automatic_choices({.offload = Offload::kHost, .local_window = 21, .sinks = 8});
}

}  // namespace
}  // namespace oomb::testing
