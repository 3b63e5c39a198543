#include "profiler/record/counter_sampler.hpp"

#include <cupti_profiler_target.h>
#include <cupti_target.h>

#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

// Sixteen times what is sampled between two calls of decode(): a full image loses the samples that are open then, some
// hundredths of a second.
constexpr std::uint32_t kMostSamples = 16 * CounterSampler::kDecodeEvery / CounterSampler::kInterval;
// Raw samples of four counters take some 7 KB each. A full buffer ends the sampling.
constexpr std::size_t kBuffer_bytes = std::size_t{128} << 20;

std::string chip_of(std::uint32_t device) {
    CUpti_Device_GetChipName_Params chip{};
    chip.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE;
    chip.deviceIndex = device;
    check_counters(cuptiDeviceGetChipName(&chip), "name of the chip");
    return chip.pChipName;
}

std::vector<std::uint8_t> availability_of(std::uint32_t device) {
    CUpti_PmSampling_GetCounterAvailability_Params available{};
    available.structSize = CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE;
    available.deviceIndex = device;
    check_counters(cuptiPmSamplingGetCounterAvailability(&available), "available counters");
    std::vector<std::uint8_t> image(available.counterAvailabilityImageSize);
    available.pCounterAvailabilityImage = image.data();
    check_counters(cuptiPmSamplingGetCounterAvailability(&available), "available counters");
    return image;
}

}  // namespace

CounterSampler::CounterSampler(std::uint32_t device) : device_(device) {
    CUpti_Profiler_Initialize_Params begin{};
    begin.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
    check_counters(cuptiProfilerInitialize(&begin),
                   "beginning");  // never undone: it is not counted, and others may use it
    plan_ = std::make_unique<CounterPlan>(chip_of(device), availability_of(device));
    CUpti_PmSampling_Enable_Params enable{};
    enable.structSize = CUpti_PmSampling_Enable_Params_STRUCT_SIZE;
    enable.deviceIndex = device;
    check_counters(cuptiPmSamplingEnable(&enable), "sampling");
    sampling_ = enable.pPmSamplingObject;
    try {
        configure();
        make_image();
        CUpti_PmSampling_Start_Params start{};
        start.structSize = CUpti_PmSampling_Start_Params_STRUCT_SIZE;
        start.pPmSamplingObject = sampling_;
        check_counters(cuptiPmSamplingStart(&start), "start");
        started_ = true;
    } catch (...) {  // no destructor runs
        release();
        throw;
    }
}

CounterSampler::~CounterSampler() {
    release();
}

void CounterSampler::release() {
    if (std::exchange(started_, false)) {
        CUpti_PmSampling_Stop_Params stop{};
        stop.structSize = CUpti_PmSampling_Stop_Params_STRUCT_SIZE;
        stop.pPmSamplingObject = sampling_;
        cuptiPmSamplingStop(&stop);
    }
    CUpti_PmSampling_Disable_Params disable{};
    disable.structSize = CUpti_PmSampling_Disable_Params_STRUCT_SIZE;
    disable.pPmSamplingObject = sampling_;
    cuptiPmSamplingDisable(&disable);
}

void CounterSampler::configure() {
    CUpti_PmSampling_SetConfig_Params config{};
    config.structSize = CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE;
    config.pPmSamplingObject = sampling_;
    config.configSize = plan_->config_image().size();
    config.pConfig = plan_->config_image().data();
    config.hardwareBufferSize = kBuffer_bytes;
    config.samplingInterval = static_cast<std::uint64_t>(kInterval.count());
    config.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
    config.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
    check_counters(cuptiPmSamplingSetConfig(&config), "configuration");
}

void CounterSampler::make_image() {
    std::vector<const char*> names = plan_->metrics();
    CUpti_PmSampling_GetCounterDataSize_Params size{};
    size.structSize = CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE;
    size.pPmSamplingObject = sampling_;
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxSamples = kMostSamples;
    check_counters(cuptiPmSamplingGetCounterDataSize(&size), "size of samples");
    image_.resize(size.counterDataSize);
    clear_image();
}

void CounterSampler::clear_image() {
    CUpti_PmSampling_CounterDataImage_Initialize_Params clear{};
    clear.structSize = CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE;
    clear.pPmSamplingObject = sampling_;
    clear.counterDataSize = image_.size();
    clear.pCounterData = image_.data();
    check_counters(cuptiPmSamplingCounterDataImageInitialize(&clear), "memory for samples");
    read_ = open_ = 0;
}

// True: the image is full, and the buffer may hold more.
bool CounterSampler::decode_to_image() {
    CUpti_PmSampling_DecodeData_Params decode{};
    decode.structSize = CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE;
    decode.pPmSamplingObject = sampling_;
    decode.pCounterDataImage = image_.data();
    decode.counterDataImageSize = image_.size();
    const CUptiResult result = cuptiPmSamplingDecodeData(&decode);
    if (result == CUPTI_ERROR_OUT_OF_MEMORY || decode.overflow != 0) {  // and so it would stay
        fail<UnsupportedError>("counters end here: samples came faster than they were read");
    }
    check_counters(result, "reading samples");
    return decode.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
}

// The parts of a sample come from units of the chip that do not report at once. What is open stays in the image for the
// next call to complete; an image that is cleared with it loses it. Clearing is rare: nobody says what it does to the
// sample that is begun then.
void CounterSampler::decode(const RecordSink& sink) {
    for (bool more = true; more;) {
        const bool full = decode_to_image();
        const std::size_t before = read_;
        read_samples(sink);
        more = full && read_ > before;
        if (full || (open_ == 0 && read_ > kMostSamples / 2)) {
            lost_ += static_cast<std::int64_t>(open_);
            clear_image();
        }
    }
}

// Complete samples since the last call.
void CounterSampler::read_samples(const RecordSink& sink) {
    CUpti_PmSampling_GetCounterDataInfo_Params info{};
    info.structSize = CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE;
    info.pCounterDataImage = image_.data();
    info.counterDataImageSize = image_.size();
    check_counters(cuptiPmSamplingGetCounterDataInfo(&info), "number of samples");
    for (; read_ < info.numCompletedSamples; ++read_) {
        CUpti_PmSampling_CounterData_GetSampleInfo_Params sample{};
        sample.structSize = CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE;
        sample.pPmSamplingObject = sampling_;
        sample.pCounterDataImage = image_.data();
        sample.counterDataImageSize = image_.size();
        sample.sampleIndex = read_;
        check_counters(cuptiPmSamplingCounterDataGetSampleInfo(&sample), "time of a sample");
        add_counters(device_, plan_->metrics(),
                     {sample.startTimestamp, sample.endTimestamp, plan_->values(image_, read_)}, sink);
    }
    open_ = info.numPopulatedSamples > read_ ? info.numPopulatedSamples - read_ : 0;
}

void CounterSampler::stop(const RecordSink& sink) {
    if (!std::exchange(started_, false)) {
        return;
    }
    CUpti_PmSampling_Stop_Params stop{};
    stop.structSize = CUpti_PmSampling_Stop_Params_STRUCT_SIZE;
    stop.pPmSamplingObject = sampling_;
    check_counters(cuptiPmSamplingStop(&stop), "end");
    decode(sink);
}

}  // namespace oomb::profiler
