#include "profiler/record/counter_samples.hpp"

#include <cmath>
#include <utility>

#include "profiler/record/explain.hpp"
#include "runtime/core/error.hpp"

namespace oomb::profiler {

void check_counters(CUptiResult result, const char* call) {
    if (result != CUPTI_SUCCESS) {
        throw UnsupportedError(explain(result, fmt::format("counters are not sampled ({})", call), {}));
    }
}

CounterPlan::CounterPlan(std::string chip, std::vector<std::uint8_t> availability)
    : chip_(std::move(chip)), availability_(std::move(availability)) {
    CUpti_Profiler_Host_Initialize_Params begin{};
    begin.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE;
    begin.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
    begin.pChipName = chip_.c_str();
    begin.pCounterAvailabilityImage = availability_.empty() ? nullptr : availability_.data();
    check_counters(cuptiProfilerHostInitialize(&begin), ("chip " + chip_).c_str());
    host_ = begin.pHostObject;
    for (const char* name : kCounterMetrics) {
        CUpti_Profiler_Host_GetMetricProperties_Params properties{};
        properties.structSize = CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE;
        properties.pHostObject = host_;
        properties.pMetricName = name;
        if (cuptiProfilerHostGetMetricProperties(&properties) == CUPTI_SUCCESS) {
            metrics_.push_back(name);
        }
    }
    try {
        make_config_image();
    } catch (...) {  // no destructor runs
        release();
        throw;
    }
}

CounterPlan::~CounterPlan() {
    release();
}

void CounterPlan::release() {
    CUpti_Profiler_Host_Deinitialize_Params end{};
    end.structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE;
    end.pHostObject = host_;
    cuptiProfilerHostDeinitialize(&end);
}

void CounterPlan::make_config_image() {
    if (metrics_.empty()) {
        fail<UnsupportedError>("counters are not sampled: this chip has none of those for PCIe and memory");
    }
    CUpti_Profiler_Host_ConfigAddMetrics_Params add{};
    add.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE;
    add.pHostObject = host_;
    add.ppMetricNames = metrics_.data();
    add.numMetrics = metrics_.size();
    check_counters(cuptiProfilerHostConfigAddMetrics(&add), "choosing metrics");
    CUpti_Profiler_Host_GetConfigImageSize_Params size{};
    size.structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE;
    size.pHostObject = host_;
    check_counters(cuptiProfilerHostGetConfigImageSize(&size), "size of the configuration");
    config_image_.resize(size.configImageSize);
    CUpti_Profiler_Host_GetConfigImage_Params image{};
    image.structSize = CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE;
    image.pHostObject = host_;
    image.configImageSize = config_image_.size();
    image.pConfigImage = config_image_.data();
    check_counters(cuptiProfilerHostGetConfigImage(&image), "configuration");
    CUpti_Profiler_Host_GetNumOfPasses_Params passes{};
    passes.structSize = CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE;
    passes.configImageSize = config_image_.size();
    passes.pConfigImage = config_image_.data();
    check_counters(cuptiProfilerHostGetNumOfPasses(&passes), "number of passes");
    if (passes.numOfPasses != 1) {
        fail<UnsupportedError>("counters are not sampled: this chip needs {} passes for them, and a run gives one",
                               passes.numOfPasses);
    }
}

std::vector<double> CounterPlan::values(std::span<const std::uint8_t> image, std::size_t sample) const {
    std::vector<double> values(metrics_.size());
    std::vector<const char*> names = metrics_;
    CUpti_Profiler_Host_EvaluateToGpuValues_Params evaluate{};
    evaluate.structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE;
    evaluate.pHostObject = host_;
    evaluate.pCounterDataImage = image.data();
    evaluate.counterDataImageSize = image.size();
    evaluate.rangeIndex = sample;
    evaluate.ppMetricNames = names.data();
    evaluate.numMetrics = names.size();
    evaluate.pMetricValues = values.data();
    check_counters(cuptiProfilerHostEvaluateToGpuValues(&evaluate), "values of a sample");
    return values;
}

void add_counters(std::uint32_t device, std::span<const char* const> metrics, const CounterSample& sample,
                  const RecordSink& sink) {
    constexpr auto kMost = static_cast<std::uint64_t>(kMostNumber);
    if (sample.begin_ns == 0 || sample.end_ns <= sample.begin_ns || sample.end_ns > kMost) {
        return;
    }
    for (std::size_t i = 0; i < metrics.size(); ++i) {
        const double value = sample.values[i];
        if (std::isfinite(value) && value >= 0 && value < static_cast<double>(kMost)) {
            sink.add(Counter{.begin_ns = static_cast<std::int64_t>(sample.begin_ns),
                             .end_ns = static_cast<std::int64_t>(sample.end_ns),
                             .device = device,
                             .name = sink.intern(metrics[i]),
                             .value = std::llround(value)});
        }
    }
}

}  // namespace oomb::profiler
