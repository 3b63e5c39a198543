#include "profiler/report/critical_path_report.hpp"

#include "profiler/report/words.hpp"

namespace oomb::profiler {
namespace {

using schedule::Engine;

const schedule::OperationId& id_of(const PathFindings& findings, std::int64_t place) {
    return findings.step[static_cast<std::size_t>(place)].id;
}

std::string line(std::string_view name, std::string_view operations, std::int64_t ns, std::int64_t whole) {
    return fmt::format("  {:<36}{:>10}{:>12}{:>10}\n", name, operations, duration(ns), share(ns, whole));
}

std::string engine_text(const CriticalPath& path, Engine engine) {
    const std::int64_t whole = path.step.end - path.step.begin;
    std::string text, kinds;
    std::int64_t operations = 0;
    for (const auto& [kind, part] : path.engines[static_cast<std::size_t>(engine)]) {
        operations += part.operations;
        kinds += line(fmt::format("  {}", name_of(kind)), format_count(part.operations), part.ns, whole);
    }
    return operations == 0 ? ""
                           : line(name_of(engine), format_count(operations), path.engine_ns(engine), whole) + kinds;
}

std::string host_text(const HostTime& host) {
    std::string text;
    for (const auto& [ns, what] : {std::pair{host.host_ns, "the host"},
                                   {host.launch_ns, "the launch"},
                                   {host.unexplained_ns, "host or launch"}}) {
        text += ns > 0 ? fmt::format("{}{} for {}", text.empty() ? "" : ", ", duration(ns), what) : "";
    }
    return text;
}

std::string wait_text(const PathFindings& findings, const EngineWait& wait) {
    std::string text = fmt::format("  {:<12}before {}\n", duration(wait.time.end - wait.time.begin),
                                   schedule::to_text(id_of(findings, wait.place)));
    if (wait.for_ns > 0) {
        text += fmt::format("  {:<12}  {} for {}\n", "", duration(wait.for_ns),
                            schedule::to_text(id_of(findings, wait.for_place)));
    }
    const std::string host = host_text(wait.host);
    return host.empty() ? text : text + fmt::format("  {:<12}  {}\n", "", host);
}

Json host_json(const HostTime& host) {
    return {{"host_ns", host.host_ns}, {"launch_ns", host.launch_ns}, {"unexplained_ns", host.unexplained_ns}};
}

}  // namespace

std::string path_text(const PathFindings& findings) {
    const CriticalPath& path = findings.path;
    const std::int64_t whole = path.step.end - path.step.begin;
    std::string text = fmt::format("\ncritical path of {}\n", findings.caption);
    for (const std::string& note : findings.notes) {
        text += fmt::format("note: {}\n", note);
    }
    text += fmt::format("\n  {:<36}{:>10}{:>12}{:>10}\n", "on it", "operations", "time", "of step");
    for (int engine = 0; engine < schedule::kEngines; ++engine) {
        text += engine_text(path, static_cast<Engine>(engine));
    }
    for (const auto& [ns, name] : {std::pair{path.within_ns, "between kernels of an operation"},
                                   {path.host.launch_ns, "launch: submitted, not begun"},
                                   {path.host.host_ns, "host: ready, not submitted"},
                                   {path.host.unexplained_ns, "host or launch"}}) {
        text += ns > 0 ? line(name, "", ns, whole) : "";
    }
    text += line("step", format_count(std::ssize(path.places)), whole, whole);
    text += findings.waits.empty() ? "" : "\n  longest waits of the compute engine\n";
    for (const EngineWait& wait : findings.waits) {
        text += wait_text(findings, wait);
    }
    return text;
}

Json path_json(const PathFindings& findings) {
    const CriticalPath& path = findings.path;
    Json json = {{"step", findings.caption},
                 {"notes", findings.notes},
                 {"step_ns", path.step.end - path.step.begin},
                 {"operations", path.places.size()},
                 {"engines", Json::object()},
                 {"within_operations_ns", path.within_ns},
                 {"waits", Json::array()}};
    json.update(host_json(path.host));
    for (std::size_t engine = 0; engine < path.engines.size(); ++engine) {
        for (const auto& [kind, part] : path.engines[engine]) {
            json["engines"][std::string(name_of(static_cast<Engine>(engine)))][std::string(name_of(kind))] = {
                {"operations", part.operations}, {"ns", part.ns}};
        }
    }
    for (const EngineWait& wait : findings.waits) {
        Json entry = host_json(wait.host);
        entry["length_ns"] = wait.time.end - wait.time.begin;
        entry["before"] = schedule::to_text(id_of(findings, wait.place));
        entry["for_ns"] = wait.for_ns;
        entry["for"] = wait.for_ns > 0 ? Json(schedule::to_text(id_of(findings, wait.for_place))) : Json(nullptr);
        json["waits"].push_back(std::move(entry));
    }
    return json;
}

}  // namespace oomb::profiler
