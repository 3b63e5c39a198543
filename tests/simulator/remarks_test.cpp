#include "simulator/report/remarks.hpp"

#include <doctest/doctest.h>

#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

RunConfiguration small_run() {
    RunConfiguration run;
    run.context_tokens = 10 * 1024;
    run.chunk_tokens = 4096;  // three of them
    run.offload = Offload::kHost;
    return run;
}

std::vector<std::string> remarks_on(const RunConfiguration& run) {
    static const ModelShape kModel = read_model_shape(model_file("smollm2-135m"));  // 30 layers
    return simulator::remarks_on(schedule::make_plan(kModel, run));
}

}  // namespace

TEST_CASE("a number that is all there is needs no remark, one more does") {
    CHECK(remarks_on(small_run()).empty());
    const auto check = [](auto set, std::int64_t all, const std::string& text) {
        RunConfiguration run = small_run();
        set(run, all);
        CHECK(remarks_on(run).empty());
        set(run, all + 1);
        const std::vector<std::string> remarks = remarks_on(run);
        REQUIRE(remarks.size() == 1);
        CHECK(remarks[0] == text);
    };
    check(
        [](RunConfiguration& run, std::int64_t n) {
            run.hbm_pages = {HbmPages::Mode::kCount, n};
        },
        80 * 30, "--hbm-pages 2401: there are 2,400 K/V pages, all stay in device arena");
    check(
        [](RunConfiguration& run, std::int64_t n) {
            run.keep = Keep::kInputAndOutput;
            run.kept_pages = {Amount::Mode::kCount, n};
        },
        3 * 30, "--kept-pages 91: there are 90 pages to keep, all are kept");
    check(
        [](RunConfiguration& run, std::int64_t n) {
            run.held_chunks = {Amount::Mode::kCount, n};
        },
        3, "--held-chunks 4: there are 3 chunks, all are held");
    check(
        [](RunConfiguration& run, std::int64_t n) {
            run.attention = AttentionMode::kTopK;
            run.top_k = n;
        },
        2 * 32, "--top-k 65: there are 64 pages in the history, all are read as with --attention dense");
    check(
        [](RunConfiguration& run, std::int64_t n) {
            run.attention = AttentionMode::kLocal;
            run.local_window = n;
        },
        10 * 1024 - 1,
        "--local-window 10240: there are 10,239 tokens before the last one, all are read as with --attention dense");
}

TEST_CASE("a sliding window on a GPU is said to be slow, and shown where it is the model's") {
    RunConfiguration run = small_run();
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    CHECK(remarks_on(run).empty());
    run.attention = AttentionMode::kLocal;
    run.local_window = 1000;
    REQUIRE(remarks_on(run).size() == 1);
    CHECK(remarks_on(run)[0].starts_with("sliding windows with --device cuda: "));
    run.attention_kernels = AttentionKernels::kOwn;
    CHECK(remarks_on(run).empty());
    const TemporaryFolder folder;
    Json config = read_json_file(model_file("mistral-7b-v0.3"));
    config["sliding_window"] = 4096;
    const std::string path = (folder.path() / "config.json").string();
    write_text_file(path, config.dump());
    const PlanCall shown = call_plan({"--model", path, "--context", "32K"});
    CHECK(shown.out.find(", sliding window 4,096 in 32 layers\n") != std::string::npos);
}

TEST_CASE("a GPU's name in its driver leads to its profile, that of another form of the card to none") {
    CHECK(known_hardware_of_gpu("NVIDIA H200") == "h200_sxm");
    CHECK(known_hardware_of_gpu("NVIDIA H100 80GB HBM3") == "h100_sxm");
    for (const char* name : {"", "NVIDIA H200 NVL", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB", "h200_sxm"}) {
        CHECK(known_hardware_of_gpu(name).empty());
    }
    for (const char* name : {"NVIDIA H200", "NVIDIA H100 80GB HBM3"}) {
        CHECK(known_hardware(known_hardware_of_gpu(name)) != nullptr);
    }
}

}  // namespace oomb::test
