#include "simulator/cli/replay_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/core/units.hpp"
#include "simulator/report/time_report.hpp"

namespace oomb::simulator {
namespace {

using Json = nlohmann::ordered_json;
using schedule::Engine;

// Of the compute engine, from one operation to the next that nothing held up.
double gap_seconds(const Recording& recording) {
    double sum = 0;
    for (const RecordedOperation& operation : recording.operations) {
        sum += operation.engine == Engine::kCompute ? operation.submission.gap_seconds : 0;
    }
    return sum;
}

std::string difference(double from, double to) {
    return from > 0 ? fmt::format("{:+.2f} %", 100 * (to / from - 1)) : "";
}

class Table {
  public:
    explicit Table(const Replayed& replayed) : replayed_(replayed) {}

    // A line of what `of` finds in each prediction.
    template <class Of, class Show, class Compare>
    void row(const std::string& name, Of of, Show show, Compare compare) {
        const auto recorded = of(replayed_.recording.step), unchanged = of(replayed_.unchanged);
        std::string line = fmt::format("  {:<22}{:>13}{:>13}{:>12}", name, show(recorded), show(unchanged),
                                       compare(recorded, unchanged));
        if (replayed_.changed) {
            const auto changed = of(*replayed_.changed);
            line += fmt::format("{:>13}{:>12}", show(changed), compare(unchanged, changed));
        }
        text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
    }
    template <class Of>
    void seconds(const std::string& name, Of of) {
        row(name, of, format_duration, difference);
    }

    std::string text;

  private:
    const Replayed& replayed_;
};

std::string hidden_text(const std::optional<double>& share) {
    return share ? fmt::format("{:.1f} %", 100 * *share) : "";
}
std::string points(const std::optional<double>& from, const std::optional<double>& to) {
    return from && to ? fmt::format("{:+.2f} pts", 100 * (*to - *from)) : "";
}
std::string no_difference(std::int64_t from, std::int64_t to) {
    return from == to ? "" : difference(static_cast<double>(from), static_cast<double>(to));
}

std::string rate_text(const RecordedDurations& durations, Engine engine) {
    const std::optional<double> alone = durations.copy_rate(engine, false), both = durations.copy_rate(engine, true);
    return alone ? fmt::format("{} {} alone, {} while both copy",
                               engine == Engine::kHostToDevice ? "to the device" : "to the host",
                               format_bytes_per_second(*alone), format_bytes_per_second(*both))
                 : "";
}

}  // namespace

std::string replay_table(const Replayed& replayed, const std::string& trace) {
    const Recording& recording = replayed.recording;
    std::string text = fmt::format("{}: {} on {}, ", trace, recording.program, recording.device);
    text += fmt::format("step {}", recording.number);
    if (recording.first_step != recording.last_step) {
        text += fmt::format(", the median of {} to {} ({} to {})", recording.first_step, recording.last_step,
                            format_duration(recording.least_seconds), format_duration(recording.most_seconds));
    }
    text += fmt::format(", {} operations\nthe run: {}\n", format_count(std::ssize(recording.operations)), replayed.run);
    text += replayed.changed ? fmt::format("changed: {}\n", replayed.changes) : "";
    text += fmt::format("\n  {:<22}{:>13}{:>13}{:>12}{}\n", "", "recorded", "replayed", "error",
                        replayed.changed ? fmt::format("{:>13}{:>12}", "changed", "difference") : "");
    Table table(replayed);
    table.seconds("step", [](const Prediction& p) { return p.seconds; });
    for (std::size_t phase = 0; phase < schedule::kPhases; ++phase) {
        table.seconds(fmt::format("  {}", name_of(static_cast<schedule::Phase>(phase))),
                      [&](const Prediction& p) { return p.phase_seconds[phase]; });
    }
    table.seconds("exposed copies", [](const Prediction& p) { return p.exposed_copy_seconds; });
    table.row(
        "copies hidden", [](const Prediction& p) { return p.hidden_copy_share(); }, hidden_text, points);
    for (const auto& [name, engine] :
         {std::pair{"host to device", Engine::kHostToDevice}, {"device to host", Engine::kDeviceToHost}}) {
        table.row(
            name, [&](const Prediction& p) { return p.of(engine).bytes; }, format_bytes_short, no_difference);
        table.seconds("  busy", [&](const Prediction& p) { return p.of(engine).seconds; });
    }
    text += table.text + "\n";
    for (const Engine engine : {Engine::kHostToDevice, Engine::kDeviceToHost}) {
        const std::string rate = rate_text(replayed.as_recorded, engine);
        text += rate.empty() ? "" : fmt::format("copies {}\n", rate);
    }
    text += fmt::format("gaps between operations that nothing holds up: {}\n", format_duration(gap_seconds(recording)));
    for (const std::string& note : replayed.notes) {
        text += note + "\n";
    }
    return text;
}

nlohmann::ordered_json replay_json(const Replayed& replayed) {
    const Recording& recording = replayed.recording;
    Json json = {{"format", "oomb-plan-replay"}, {"version", 1}};
    json["program"] = recording.program;
    json["device"] = recording.device;
    json["step"] = recording.number;
    if (recording.first_step > 0) {
        json["median_of"] = {{"first", recording.first_step},
                             {"last", recording.last_step},
                             {"least_seconds", recording.least_seconds},
                             {"most_seconds", recording.most_seconds}};
    } else {
        json["median_of"] = nullptr;
    }
    json["sequences"] = recording.sequences;
    json["operations"] = recording.operations.size();
    json["gap_seconds"] = gap_seconds(recording);
    json["run"] = replayed.run;
    json["recorded"] = time_json(recording.step);
    json["replayed"] = time_json(replayed.unchanged);
    json["error"] = replayed.unchanged.seconds / recording.step.seconds - 1;
    json["changes"] = replayed.changes;
    json["changed"] = replayed.changed ? time_json(*replayed.changed) : Json(nullptr);
    json["notes"] = replayed.notes;
    return json;
}

}  // namespace oomb::simulator
