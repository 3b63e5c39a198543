// What takes too long to simulate is refused, by the layers that are walked through.
#include "simulator/step/step_size.hpp"

#include <doctest/doctest.h>

#include "runtime/core/known_hardware.hpp"
#include "simulator/step/layer_sample.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/core/messages.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

using schedule::Plan;
using simulator::is_slow_to_predict;
using simulator::Layers;
using simulator::walked_page_uses;
using simulator::why_unpredictable;

Plan listed_plan(const char* model, std::int64_t context_tokens) {
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = context_tokens;
    run.chunk_tokens = 8192;
    run.window_tokens = 32768;
    run.attention = AttentionMode::kTopK;
    run.top_k = 64;
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    return schedule::make_plan(read_model_shape(model_file(model)), run);
}

}  // namespace

TEST_CASE("a step that is sampled counts by its sample, with recorded lists by all layers") {
    const Plan plan = listed_plan("qwen2.5-7b", 4 * kMiB);
    const double share = static_cast<double>(simulator::LayerSample::kLayers) / static_cast<double>(plan.model.layers);
    CHECK(walked_page_uses(plan, Layers::kSample) ==
          doctest::Approx(share * walked_page_uses(plan, Layers::kAll)).epsilon(1e-12));
    CHECK_FALSE(why_unpredictable(plan, default_hardware(), Layers::kSample));
    const auto refused = why_unpredictable(plan, default_hardware(), Layers::kAll);
    REQUIRE(refused);
    CHECK(refused->find("a step uses pages") == 0);
    CHECK(is_slow_to_predict(plan));
    CHECK_FALSE(is_slow_to_predict(listed_plan("qwen2.5-7b", 128 * kKiB)));
    simulator::ListSource recorded;
    recorded.recorded = std::make_shared<simulator::PageTrace>();  // nobody looks into it
    const simulator::Predicted found = simulator::try_to_predict(plan, default_hardware(), recorded);
    CHECK_FALSE(found.prediction);
    CHECK(found.why_not == *refused);
}

TEST_CASE("a step that the host holds up is refused where all its layers would take minutes") {
    HardwareProfile slow_host = default_hardware();
    slow_host.submit.seconds = 1e-3;
    const Plan plan = listed_plan("smollm2-135m", 2 * kMiB);
    REQUIRE_FALSE(why_unpredictable(plan, slow_host));
    const simulator::Predicted found = simulator::try_to_predict(plan, slow_host);
    CHECK_FALSE(found.prediction);
    check_contains(found.why_not, {"compute waits for the host", "all layers", "a step uses pages"});
}

}  // namespace oomb::test
