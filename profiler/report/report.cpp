#include "profiler/report/report.hpp"

#include "profiler/report/call_report.hpp"
#include "profiler/report/words.hpp"

namespace oomb::profiler {
namespace {

std::string row(std::string_view name, std::int64_t ns, std::int64_t whole) {
    return fmt::format("  {:<28}{:>12} {:>9}\n", name, duration(ns), share(ns, whole));
}

std::string device_text(const std::string& name, const DeviceOverlap& overlap) {
    std::string text = fmt::format("\n{}: {} kernels, {} memsets\n", name, format_count(overlap.kernels),
                                   format_count(overlap.memsets));
    text += row("span", overlap.span_ns(), overlap.span_ns());
    text += row("compute", overlap.compute_ns, overlap.span_ns());
    text += row("copies that nothing hides", overlap.exposed_ns, overlap.span_ns());
    text += row("idle", overlap.idle_ns, overlap.span_ns());
    text += fmt::format("\n  {:<18}{:>9}{:>12}{:>12}{:>13}{:>12}{:>9}{:>12}{:>12}\n", "copies", "number", "bytes",
                        "busy", "rate", "hidden", "", "exposed", "idle");
    for (std::size_t kind = 0; kind < overlap.directions.size(); ++kind) {
        const DirectionTime& d = overlap.directions[kind];
        if (d.copies == 0) {
            continue;
        }
        const std::string rate =
            d.busy_ns > 0 ? format_bytes_per_second(static_cast<double>(d.bytes) * 1e9 / static_cast<double>(d.busy_ns))
                          : "";
        text += fmt::format("  {:<18}{:>9}{:>12}{:>12}{:>13}{:>12}{:>9}{:>12}{:>12}\n",
                            name_of(static_cast<CopyKind>(kind)), format_count(d.copies), format_bytes_short(d.bytes),
                            duration(d.busy_ns), rate, duration(d.hidden_ns), share(d.hidden_ns, d.busy_ns),
                            duration(d.exposed_ns), duration(d.idle_ns));
    }
    return text;
}

std::string gaps_text(const Profile& profile, const DeviceOverlap& overlap, const std::vector<Gap>& gaps) {
    if (gaps.empty()) {
        return "";
    }
    const auto name = [&](StringId id) {
        return id == 0 ? std::string("a memset") : shortened(demangled(profile.text(id)));
    };
    std::string text = fmt::format("\n  {:<22}{:>12}{:>12}{:>12}{:>12}\n", "longest without compute", "at", "to device",
                                   "to host", "waited for");
    for (const Gap& gap : gaps) {
        text += fmt::format("  {:<22}{:>13}{:>12}{:>12}{:>12}   {} .. {}\n", duration(gap.time.end - gap.time.begin),
                            duration(gap.time.begin - overlap.span.begin), duration(gap.host_to_device_ns),
                            duration(gap.device_to_host_ns), duration(gap.synchronization_ns), name(gap.after),
                            name(gap.before));
    }
    return text;
}

std::string memory_name(const MemoryUse& use) {
    return of_device(use.kind) ? fmt::format("{}, device {}", name_of(use.kind), use.device)
                               : fmt::format("{}", name_of(use.kind));
}

std::string memory_text(const MemoryUses& memory, std::int64_t begin_ns) {
    std::string text =
        fmt::format("\n  {:<22}{:>13}{:>14}{:>14}{:>12}\n", "memory", "at most", "at", "allocations", "releases");
    for (const MemoryUse& use : memory.kinds) {
        text += fmt::format("  {:<22}{:>13}{:>14}{:>14}{:>12}\n", memory_name(use), format_bytes_short(use.peak_bytes),
                            use.peak_at_ns < begin_ns ? "before" : duration(use.peak_at_ns - begin_ns),
                            format_count(use.allocations), format_count(use.releases));
    }
    if (memory.unknown_releases > 0) {
        text += fmt::format("  {} releases of memory from before the recording, which is not counted\n",
                            format_count(memory.unknown_releases));
    }
    return memory.kinds.empty() ? "" : text;
}

std::string roofline_text(const Roofline& roofline) {
    std::string text = fmt::format("\n  roof of {}\n  {:<32}{:>10}{:>12}{:>10}{:>13}{:>9}  against\n",
                                   roofline.hardware, "", "number", "time", "TFLOP/s", "rate", "of roof");
    for (const RooflineRow& row : roofline.rows) {
        text += fmt::format("  {:<32}{:>10}{:>12}{:>10}{:>13}{:>9}  {}\n", row.name, format_count(row.count),
                            duration(row.busy_ns),
                            row.flops > 0 ? fmt::format("{:.3g}", row.flops_per_second() * 1e-12) : "",
                            row.bytes > 0 ? format_bytes_per_second(row.bytes_per_second()) : "",
                            row.least_ns > 0 ? fmt::format("{:.1f} %", 100 * row.share_of_roof()) : "",
                            row.least_ns > 0 ? name_of(row.bound) : "");
    }
    return text;
}

std::string kernels_text(const std::vector<NameSum>& kernels, std::size_t rows) {
    std::int64_t whole = 0;
    for (const NameSum& sum : kernels) {
        whole = add_clamped(whole, sum.total_ns);
    }
    std::string text = fmt::format("\n  {:>12}{:>9}{:>11}{:>12}{:>12}{:>12}  kernel\n", "time", "", "launches", "mean",
                                   "shortest", "longest");
    for (std::size_t i = 0; i < std::min(rows, kernels.size()); ++i) {
        const NameSum& sum = kernels[i];
        text += fmt::format("  {:>12}{:>9}{:>11}{:>12}{:>12}{:>12}  {}\n", duration(sum.total_ns),
                            share(sum.total_ns, whole), format_count(sum.count), duration(sum.total_ns / sum.count),
                            duration(sum.least_ns), duration(sum.most_ns), shortened(sum.name));
    }
    if (kernels.size() > rows) {
        text += fmt::format("  and {} more names\n", kernels.size() - rows);
    }
    return kernels.empty() ? "" : text;
}

Json roofline_json(const Roofline& roofline) {
    Json json = {{"hardware", roofline.hardware}, {"rows", Json::array()}};
    for (const RooflineRow& row : roofline.rows) {
        json["rows"].push_back({{"name", row.name},
                                {"count", row.count},
                                {"busy_ns", row.busy_ns},
                                {"flops", row.flops},
                                {"bytes", row.bytes},
                                {"least_ns", row.least_ns},
                                {"bound", name_of(row.bound)}});
    }
    return json;
}

Json memory_json(const MemoryUses& memory) {
    Json json = {{"unknown_releases", memory.unknown_releases}, {"kinds", Json::array()}};
    for (const MemoryUse& use : memory.kinds) {
        json["kinds"].push_back({{"kind", name_of(use.kind)},
                                 {"device", of_device(use.kind) ? Json(use.device) : Json()},
                                 {"peak_bytes", use.peak_bytes},
                                 {"peak_at_ns", use.peak_at_ns},
                                 {"end_bytes", use.points.back().bytes},
                                 {"allocations", use.allocations},
                                 {"releases", use.releases}});
    }
    return json;
}

std::string operation_row(std::string_view name, const OperationSum& sum) {
    return fmt::format("  {:<32}{:>10}{:>12}{:>10}{:>12}{:>12}\n", name, format_count(sum.kernels),
                       duration(sum.kernel_ns), format_count(sum.copies), duration(sum.copy_ns),
                       format_bytes_short(sum.copy_bytes));
}

OperationSum sum_of(const std::map<schedule::Phase, OperationSum>& phases) {
    OperationSum sum;
    for (const auto& [phase, part] : phases) {
        sum += part;
    }
    return sum;
}

// A line per chunk, of more than `rows` those that take longest: kernels in each phase, copies in all.
std::string chunks_text(const OperationSums& sums, std::size_t rows) {
    const auto kernel_ns = [&](std::int64_t chunk) { return sum_of(sums.by_chunk.at(chunk)).kernel_ns; };
    std::vector<std::int64_t> chunks;
    for (const auto& [chunk, phases] : sums.by_chunk) {
        chunks.push_back(chunk);
    }
    std::stable_sort(chunks.begin(), chunks.end(), [&](auto a, auto b) { return kernel_ns(a) > kernel_ns(b); });
    chunks.resize(std::min(rows, chunks.size()));
    std::sort(chunks.begin(), chunks.end());
    std::string text = fmt::format("\n  {:<32}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "chunks, time of kernels", "fill",
                                   "forward", "backward", "copies", "bytes");
    for (const std::int64_t chunk : chunks) {
        const auto& phases = sums.by_chunk.at(chunk);
        text += fmt::format("  {:<32}", fmt::format("chunk {}", chunk));
        for (const auto phase : {schedule::Phase::kFill, schedule::Phase::kForward, schedule::Phase::kBackward}) {
            text += fmt::format("{:>12}", phases.contains(phase) ? duration(phases.at(phase).kernel_ns) : "");
        }
        const OperationSum sum = sum_of(phases);
        text += fmt::format("{:>12}{:>12}\n", duration(sum.copy_ns), format_bytes_short(sum.copy_bytes));
    }
    if (sums.by_chunk.size() > rows) {
        text += fmt::format("  and {} more chunks, which take less\n", sums.by_chunk.size() - rows);
    }
    return chunks.empty() ? "" : text;
}

std::string operations_text(const OperationSums& sums, std::size_t rows) {
    std::string text = fmt::format("\n  {:<32}{:>10}{:>12}{:>10}{:>12}{:>12}\n", "operations", "kernels", "time",
                                   "copies", "time", "bytes");
    for (const auto& [kind, sum] : sums.by_kind) {
        text += operation_row(schedule::name_of(kind), sum);
    }
    text += operation_row("outside of operations", sums.unmarked);
    for (const auto& [phase, sum] : sums.by_phase) {
        text += operation_row(fmt::format("phase {}", schedule::name_of(phase)), sum);
    }
    for (const auto& [layer, sum] : sums.by_layer) {
        text += operation_row(fmt::format("layer {}", layer), sum);
    }
    return text + chunks_text(sums, rows);
}

void add_line(std::vector<std::string>& lines, std::int64_t count, std::string_view what) {
    if (count > 0) {
        lines.push_back(fmt::format("{} {}", format_count(count), what));
    }
}

Json direction_json(const DirectionTime& d) {
    return {{"copies", d.copies},       {"pieces", d.pieces},         {"bytes", d.bytes},    {"busy_ns", d.busy_ns},
            {"hidden_ns", d.hidden_ns}, {"exposed_ns", d.exposed_ns}, {"idle_ns", d.idle_ns}};
}

Json operation_json(const OperationSum& sum) {
    return {{"kernels", sum.kernels},
            {"kernel_ns", sum.kernel_ns},
            {"copies", sum.copies},
            {"copy_ns", sum.copy_ns},
            {"copy_bytes", sum.copy_bytes}};
}

Json device_json(const Profile& profile, const DeviceOverlap& overlap, const std::vector<Gap>& gaps) {
    Json json = {{"device", overlap.device},         {"kernels", overlap.kernels},
                 {"memsets", overlap.memsets},       {"begin_ns", overlap.span.begin},
                 {"span_ns", overlap.span_ns()},     {"compute_ns", overlap.compute_ns},
                 {"exposed_ns", overlap.exposed_ns}, {"idle_ns", overlap.idle_ns},
                 {"copies", Json::object()},         {"gaps", Json::array()}};
    for (const Device& device : profile.devices) {
        if (device.device == overlap.device) {
            json["name"] = profile.text(device.name);
        }
    }
    for (std::size_t kind = 0; kind < overlap.directions.size(); ++kind) {
        if (overlap.directions[kind].copies > 0) {
            json["copies"][std::string(name_of(static_cast<CopyKind>(kind)))] =
                direction_json(overlap.directions[kind]);
        }
    }
    for (const Gap& gap : gaps) {
        json["gaps"].push_back({{"begin_ns", gap.time.begin},
                                {"length_ns", gap.time.end - gap.time.begin},
                                {"host_to_device_ns", gap.host_to_device_ns},
                                {"device_to_host_ns", gap.device_to_host_ns},
                                {"synchronization_ns", gap.synchronization_ns},
                                {"after", demangled(profile.text(gap.after))},
                                {"before", demangled(profile.text(gap.before))}});
    }
    return json;
}

Json operations_json(const OperationSums& sums) {
    Json json = {{"unmarked", operation_json(sums.unmarked)},
                 {"kinds", Json::object()},
                 {"phases", Json::object()},
                 {"layers", Json::array()},
                 {"chunks", Json::array()}};
    for (const auto& [kind, sum] : sums.by_kind) {
        json["kinds"][std::string(schedule::name_of(kind))] = operation_json(sum);
    }
    for (const auto& [phase, sum] : sums.by_phase) {
        json["phases"][std::string(schedule::name_of(phase))] = operation_json(sum);
    }
    for (const auto& [layer, sum] : sums.by_layer) {
        json["layers"].push_back(operation_json(sum));
        json["layers"].back()["layer"] = layer;
    }
    for (const auto& [chunk, phases] : sums.by_chunk) {
        json["chunks"].push_back({{"chunk", chunk}, {"phases", Json::object()}});
        for (const auto& [phase, sum] : phases) {
            json["chunks"].back()["phases"][std::string(schedule::name_of(phase))] = operation_json(sum);
        }
    }
    return json;
}

std::optional<Roofline> roofline_of(const Profile& profile, const ReportOptions& options) {
    if (options.hardware == nullptr) {
        return std::nullopt;
    }
    const DType compute = options.step != nullptr ? options.step->run().compute : DType::kBF16;
    Roofline roofline{options.hardware->name, roofs_of(*options.hardware, compute), {}};
    roofline.rows = copies_under_roof(profile, roofline.roofs);
    if (options.step != nullptr) {
        const auto operations = operations_under_roof(profile, *options.step, roofline.roofs);
        roofline.rows.insert(roofline.rows.end(), operations.begin(), operations.end());
    }
    return roofline;
}

}  // namespace

Findings find(const Profile& profile, const ReportOptions& options) {
    Findings findings{profile,
                      overlap_of(profile),
                      {},
                      sums_by_kernel(profile),
                      sums_by_operation(profile),
                      memory_use_of(profile),
                      roofline_of(profile, options),
                      sums_by_call(profile),
                      sums_by_counter(profile)};
    for (const DeviceOverlap& overlap : findings.devices) {
        findings.gaps.push_back(longest_gaps(profile, overlap.device, options.rows / 2));
    }
    return findings;
}

std::string Findings::device_name(std::uint32_t device) const {
    for (const Device& known : profile.devices) {
        if (known.device == device) {
            return fmt::format("device {}, {}", device, profile.text(known.name));
        }
    }
    return fmt::format("device {}", device);
}

std::vector<std::string> warnings_of(const Profile& profile) {
    std::vector<std::string> lines;
    const FileFaults& file = profile.file;
    if (!file.whole) {
        lines.emplace_back("the recording was cut off: the program was killed or still runs; all up to there is here");
    }
    add_line(lines, file.cut_bytes, "bytes at the end of the file are no whole block; dropped");
    add_line(lines, file.damaged_blocks, "blocks of the file are damaged; left out");
    add_line(lines, file.missing_records, "records are missing that the recorder had written");
    add_line(lines, file.trailing_bytes, "bytes follow the end of the profile; ignored");
    add_line(lines, profile.losses.dropped_records, "records were dropped by CUPTI for want of a buffer");
    add_line(lines, profile.losses.unreadable_bytes, "bytes of CUPTI's buffers could not be read");
    add_line(lines, profile.faults.without_time,
             "kernels or copies have no time: not ended, or CUPTI had no memory for it; left out");
    add_line(lines, profile.faults.reversed, "records end before they begin; left out");
    add_line(lines, profile.faults.zero_length, "kernels or copies last 0 ns; counted, they take no time");
    add_line(lines, profile.faults.out_of_order, "records came out of order; sorted");
    add_line(lines, profile.faults.unnamed, "kernels have a name that the file does not hold");
    if (!profile.kinds_match && !profile.marks.empty()) {
        lines.emplace_back("operations are numbered otherwise than in this version: no sums by operation");
    }
    for (const std::string& note : profile.notes) {
        lines.push_back("recorder: " + note);
    }
    return lines;
}

std::string report_text(const Findings& findings, const ReportOptions& options) {
    const Profile& profile = findings.profile;
    std::string text = fmt::format("{}\n{}, CUPTI {}, driver for CUDA {}.{}\n", profile.header.command,
                                   profile.header.program, profile.header.cupti_version,
                                   profile.header.driver_version / 1000, profile.header.driver_version % 1000 / 10);
    for (const std::string& line : warnings_of(profile)) {
        text += fmt::format("note: {}\n", line);
    }
    if (findings.devices.empty()) {
        return text + "\nno kernel, copy or memset was recorded: the program gave no device anything to do\n";
    }
    for (std::size_t i = 0; i < findings.devices.size(); ++i) {
        text += device_text(findings.device_name(findings.devices[i].device), findings.devices[i]);
        text += gaps_text(profile, findings.devices[i], findings.gaps[i]);
    }
    text += memory_text(findings.memory, findings.devices.front().span.begin);
    text += findings.roofline ? roofline_text(*findings.roofline) : "";
    text += kernels_text(findings.kernels, options.rows);
    if (findings.has_operations()) {
        text += operations_text(*findings.operations, options.rows);
    }
    text += calls_text(findings.calls, options.rows);
    return text + counters_text(findings.counters);
}

Json report_json(const Findings& findings) {
    const Profile& profile = findings.profile;
    Json json = {{"program", profile.header.program},
                 {"command", profile.header.command},
                 {"notes", warnings_of(profile)},
                 {"whole", profile.file.whole},
                 {"dropped_records", profile.losses.dropped_records},
                 {"zero_length", profile.faults.zero_length},
                 {"out_of_order", profile.faults.out_of_order},
                 {"synchronizations", profile.synchronizations.size()},
                 {"devices", Json::array()},
                 {"kernels", Json::array()},
                 {"memory", memory_json(findings.memory)}};
    for (std::size_t i = 0; i < findings.devices.size(); ++i) {
        json["devices"].push_back(device_json(profile, findings.devices[i], findings.gaps[i]));
    }
    for (const NameSum& sum : findings.kernels) {
        json["kernels"].push_back({{"name", sum.name},
                                   {"count", sum.count},
                                   {"total_ns", sum.total_ns},
                                   {"least_ns", sum.least_ns},
                                   {"most_ns", sum.most_ns}});
    }
    if (findings.roofline) {
        json["roofline"] = roofline_json(*findings.roofline);
    }
    if (findings.has_operations()) {
        json["operations"] = operations_json(*findings.operations);
    }
    json["calls"] = calls_json(findings.calls);
    json["counters"] = counters_json(findings.counters);
    return json;
}

}  // namespace oomb::profiler
