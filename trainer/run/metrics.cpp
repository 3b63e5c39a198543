#include "trainer/run/metrics.hpp"

#include <nlohmann/json.hpp>

namespace oomb::trainer {

std::string to_json_line(const StepMetrics& metrics) {
    nlohmann::ordered_json seconds = {{"total", metrics.seconds}};
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        seconds[std::string(name_of(static_cast<schedule::Phase>(phase)))] = metrics.phase_seconds[phase];
    }
    const nlohmann::ordered_json json = {{"step", metrics.step},
                                         {"epoch", metrics.epoch},
                                         {"tokens", metrics.tokens},
                                         {"valid_targets", metrics.valid_targets},
                                         {"loss", metrics.loss},
                                         {"grad_norm", metrics.grad_norm},
                                         {"learning_rate", metrics.learning_rate},
                                         {"tokens_per_second", metrics.tokens_per_second},
                                         {"seconds", seconds},
                                         {"peak_bytes",
                                          {{"hbm", metrics.hbm_bytes},
                                           {"host", metrics.host_bytes},
                                           {"libtorch", metrics.library_bytes},
                                           {"resident", metrics.resident_bytes}}}};
    return json.dump() + "\n";
}

MetricsFile::MetricsFile(const std::filesystem::path& path) : calls_(FileCalls::system()), file_(path, calls_) {}

void MetricsFile::write(const StepMetrics& metrics) {
    file_.write(to_json_line(metrics));
}

}  // namespace oomb::trainer
