#include "simulator/report/time_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/core/units.hpp"

namespace oomb::simulator {
namespace {

using Json = nlohmann::ordered_json;
using schedule::Engine;

std::string row(std::string_view name, std::string_view value, std::string_view exact = "",
                std::string_view text = "") {
    std::string line = fmt::format("  {:<26}{:>12} {:>17}  {}", name, value, exact, text);
    return line.erase(line.find_last_not_of(' ') + 1) + "\n";
}

std::string copy_row(std::string_view name, const Use& use) {
    return row(name, format_bytes_short(use.bytes), format_count(use.bytes),
               fmt::format("in {}", format_duration(use.seconds)));
}

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string list_note(const Prediction& prediction) {
    return prediction.lists.empty()
               ? ""
               : fmt::format(
                     "  (page lists: {})\n  (an estimate: attention over lists at the rate of dense attention)\n",
                     prediction.lists);
}

std::string render_time(const Prediction& prediction, bool evaluates) {
    std::string text = fmt::format("\ntime of {}, predicted for {}\n",
                                   evaluates ? "the evaluation of a sequence" : "a step", prediction.hardware);
    text += row(evaluates ? "sequence" : "step", format_duration(prediction.seconds), "",
                fmt::format("{} tokens/s", format_count(std::llround(prediction.tokens_per_second()))));
    for (int phase = 0; phase < (evaluates ? 0 : schedule::kPhases); ++phase) {
        text += row(fmt::format("  {}", name_of(static_cast<schedule::Phase>(phase))),
                    format_duration(prediction.phase_seconds[phase]));
    }
    text += copy_row("host to device", prediction.of(Engine::kHostToDevice));
    text += copy_row("device to host", prediction.of(Engine::kDeviceToHost));
    if (!prediction.lists.empty()) {
        text += row("waiting for page lists", format_duration(prediction.list_wait_seconds), "",
                    "compute, while the host waited for them");
    }
    if (const auto hidden = prediction.hidden_copy_share()) {
        text += row("hidden behind compute", fmt::format("{:.1f} %", 100 * *hidden), "", "of copy time");
    }
    if (const auto share = prediction.flop_utilisation()) {
        constexpr double kTera = 1e12;
        text += row("model FLOP utilisation", fmt::format("{:.1f} %", 100 * *share), "",
                    fmt::format("of {:.1f} TFLOP/s", *prediction.peak_flops / kTera));
    }
    text += list_note(prediction);
    text += "  (the profile's rates are those of large operations: small models and short chunks take longer)\n";
    return text;
}

nlohmann::ordered_json time_json(const Prediction& prediction) {
    Json seconds = {{"total", prediction.seconds}};
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        seconds[std::string(name_of(static_cast<schedule::Phase>(phase)))] = prediction.phase_seconds[phase];
    }
    const auto side = [&](Engine engine) {
        const Use use = prediction.of(engine);
        return Json{{"bytes", use.bytes}, {"busy_seconds", use.seconds}};
    };
    Json json = {{"hardware", prediction.hardware},
                 {"seconds", seconds},
                 {"tokens_per_second", prediction.tokens_per_second()},
                 {"copies",
                  {{"host_to_device", side(Engine::kHostToDevice)},
                   {"device_to_host", side(Engine::kDeviceToHost)},
                   {"exposed_seconds", prediction.exposed_copy_seconds},
                   {"hidden_share", or_null(prediction.hidden_copy_share())}}},
                 {"model_flops", prediction.model_flops},
                 {"peak_flops_per_second", or_null(prediction.peak_flops)},
                 {"flop_utilisation", or_null(prediction.flop_utilisation())}};
    if (!prediction.lists.empty()) {
        json["page_lists"] = {{"source", prediction.lists}, {"wait_seconds", prediction.list_wait_seconds}};
    }
    return json;
}

std::string plan_json(const schedule::Plan& plan, const std::optional<Prediction>& prediction) {
    Json json = Json::parse(schedule::to_json(plan));
    json["time"] = prediction ? time_json(*prediction) : Json(nullptr);
    return json.dump(2) + "\n";
}

}  // namespace oomb::simulator
