#include "trainer/run/metrics.hpp"

#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
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

// The lines of steps up to `last`.
std::string lines_up_to(std::int64_t last, const std::string& text, const std::string& name) {
    std::string kept;
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
        end = text.find('\n', begin);
        if (end == std::string::npos) {
            break;  // cut short
        }
        const std::string line = text.substr(begin, end - begin);
        const oomb::Json json = parse_json(line, name);
        if (JsonNode(json, name).at("step").as_integer() <= last) {
            kept += line + "\n";
        }
    }
    return kept;
}

// Leaves the lines of the steps that are done in a file that is there.
OutputFile::Mode mode_of(const std::filesystem::path& path, std::int64_t steps_before) {
    std::error_code error;
    if (steps_before == 0 || !std::filesystem::exists(path, error)) {
        return OutputFile::Mode::kNew;
    }
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 32;
    const std::string text = read_text_file(path, kMostBytes);
    if (const std::string kept = lines_up_to(steps_before, text, path.string()); kept != text) {
        write_text_file(path, kept);
    }
    return OutputFile::Mode::kAppend;
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

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t steps_before)
    : calls_(FileCalls::system()), file_(path, calls_, mode_of(path, steps_before)) {}

void MetricsFile::write(const StepMetrics& metrics) {
    file_.write(to_json_line(metrics));
}

}  // namespace oomb::trainer
