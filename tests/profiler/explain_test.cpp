#include "profiler/record/explain.hpp"

#include <doctest/doctest.h>

namespace oomb::profiler {
namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

constexpr Versions kFitting{.cupti = 130001, .driver = 13000};

}  // namespace

TEST_CASE("refusals name what was asked, why, and what to do") {
    const std::string busy = explain(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "recording", kFitting);
    CHECK(busy.starts_with("recording: another profiler in this process"));
    CHECK(contains(busy, "torch.profiler"));
    for (const CUptiResult result :
         {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES}) {
        CHECK(contains(explain(result, "recording kernels", kFitting), "CAP_SYS_ADMIN"));
    }
    CHECK(contains(explain(CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED, "x", kFitting), "WSL"));
}

TEST_CASE("an older driver is the reason, whatever CUPTI calls it") {
    const Versions old{.cupti = 130001, .driver = 12080};
    for (const CUptiResult result : {CUPTI_ERROR_UNKNOWN, CUPTI_ERROR_NOT_INITIALIZED, CUPTI_ERROR_NOT_COMPATIBLE}) {
        const std::string text = explain(result, "recording", old);
        CHECK(contains(text, "runs CUDA 12.8"));
        CHECK(contains(text, "CUPTI 13.0"));
    }
    // A driver of the same major version runs it; an unknown one is not blamed.
    CHECK_FALSE(contains(explain(CUPTI_ERROR_UNKNOWN, "x", {.cupti = 130100, .driver = 13000}), "update the driver"));
    CHECK_FALSE(contains(explain(CUPTI_ERROR_UNKNOWN, "x", {.cupti = 130001, .driver = 0}), "update the driver"));
}

TEST_CASE("other errors keep CUPTI's text and number") {
    CHECK(contains(explain(CUPTI_ERROR_INVALID_KIND, "recording", kFitting), "(21)"));
    CHECK(contains(explain(CUPTI_ERROR_INVALID_KIND, "recording", kFitting), "CUPTI_ERROR_INVALID_KIND"));
}

}  // namespace oomb::profiler
