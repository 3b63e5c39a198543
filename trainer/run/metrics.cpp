#include "trainer/run/metrics.hpp"

#include "trainer/run/json_value.hpp"

namespace oomb::trainer {

namespace {

Json seconds_json(const StepUse& use) {
    Json seconds = {{"total", use.seconds}};
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        seconds[std::string(name_of(static_cast<schedule::Phase>(phase)))] = use.phase_seconds[phase];
    }
    return seconds;
}

Json copies_json(const StepUse& use) {
    const auto side = [](const CopyUse& copy) {
        return Json{{"bytes", copy.moved_bytes}, {"busy_seconds", copy.busy_seconds}};
    };
    return {{"host_to_device", side(use.to_device)},
            {"device_to_host", side(use.to_host)},
            {"exposed_seconds", use.exposed_copy_seconds},
            {"hidden_share", or_null(hidden_copy_share(use))}};
}

Json device_json(const StepMetrics& metrics) {
    return {{"joules", or_null(metrics.use.joules)},
            {"watts", or_null(metrics.device.watts)},
            {"clock_mhz", or_null(metrics.device.clock_mhz)},
            {"celsius", or_null(metrics.device.celsius)}};
}

}  // namespace

std::string to_json_line(const StepMetrics& metrics) {
    const Json json = {{"step", metrics.step},
                       {"epoch", metrics.epoch},
                       {"tokens", metrics.use.tokens},
                       {"valid_targets", metrics.valid_targets},
                       {"loss", metrics.loss},
                       {"grad_norm", metrics.grad_norm},
                       {"learning_rate", metrics.learning_rate},
                       {"tokens_per_second", tokens_per_second(metrics.use)},
                       {"flop_utilisation", or_null(flop_utilisation(metrics.use, metrics.peak_flops))},
                       {"seconds", seconds_json(metrics.use)},
                       {"copies", copies_json(metrics.use)},
                       {"library_plans", metrics.use.library_plans},
                       {"device", device_json(metrics)},
                       {"peak_bytes",
                        {{"hbm", metrics.hbm_bytes},
                         {"host", metrics.host_bytes},
                         {"driver", or_null(metrics.driver_bytes)},
                         {"libtorch", metrics.library_bytes},
                         {"resident", metrics.resident_bytes}}}};
    return json.dump() + "\n";
}

MetricsFile::MetricsFile(const std::filesystem::path& path) : calls_(FileCalls::system()), file_(path, calls_) {}

void MetricsFile::write(const StepMetrics& metrics) {
    file_.write(to_json_line(metrics));
}

}  // namespace oomb::trainer
