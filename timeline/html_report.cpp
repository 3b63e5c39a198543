#include "timeline/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/units.hpp"
#include "timeline/condense.hpp"
#include "timeline/overlap.hpp"
#include "timeline/page.hpp"

namespace oomb::timeline {
namespace {

Color color_of(Group group) {
    return static_cast<Color>(group);  // the first eight, in order
}

Bar bar_of(const Overlap& overlap, std::int64_t whole_ns) {
    return {{{"compute", overlap.compute_ns, Color::kBlue},
             {"copies that nothing hides", overlap.exposed_ns, Color::kExposed},
             {"idle", overlap.idle_ns, Color::kIdle}},
            whole_ns};
}

std::vector<Cell> copy_row(std::string_view name, const CopyTime& copy, std::int64_t total_ns) {
    const double rate =
        copy.busy_ns > 0 ? 1e9 * static_cast<double>(copy.bytes) / static_cast<double>(copy.busy_ns) : 0;
    return {std::string(name),
            format_bytes_short(copy.bytes),
            text_of_ns(copy.busy_ns),
            copy.busy_ns > 0 ? format_bytes_per_second(rate) : "",
            text_of_ns(copy.hidden_ns),
            text_of_ns(copy.exposed_ns),
            text_of_share(copy.hidden_ns, copy.busy_ns),
            Bar{{{"hidden", copy.hidden_ns, Color::kBlue},
                 {"exposed", copy.exposed_ns, Color::kExposed},
                 {"idle", total_ns - copy.busy_ns, Color::kIdle}},
                total_ns}};
}

void add_step(Page& page, const Overlap& step) {
    page.heading("The step");
    page.bar(bar_of(step, step.total_ns));
    page.table({{"<copies", "bytes", "busy", "rate", "hidden", "exposed", "share hidden", ""},
                {copy_row("host to device", step.host_to_device, step.total_ns),
                 copy_row("device to host", step.device_to_host, step.total_ns)}});
}

void add_groups(Page& page, const Overlap& step) {
    Table table{{"<operations", "seconds", "of the step", ""}, {}};
    for (int i = 0; i < kGroups; ++i) {
        const std::int64_t ns = step.group_ns[static_cast<std::size_t>(i)];
        const std::string name(name_of(static_cast<Group>(i)));
        if (ns > 0) {
            table.rows.push_back({name, text_of_ns(ns), text_of_share(ns, step.total_ns),
                                  Bar{{{name, ns, color_of(static_cast<Group>(i))}}, step.total_ns}});
        }
    }
    page.heading("Where the time goes");
    page.table(table);
}

std::string place_of(const schedule::OperationId& id) {
    return id.phase == schedule::Phase::kOptimizer
               ? "optimizer"
               : fmt::format("{}, chunk {}, layer {}", schedule::name_of(id.phase), id.chunk, id.layer);
}

PageLane lane_of(schedule::Engine engine, const Lane& operations, const std::vector<DrawnPiece>& drawn, Texts& texts) {
    PageLane lane{.group = {}, .name = std::string(schedule::name_of(engine)), .slices = {}};
    std::replace(lane.name.begin(), lane.name.end(), '_', ' ');
    for (const DrawnPiece& piece : drawn) {
        const schedule::OperationId& first = operations[piece.first].id;
        PageSlice slice{.begin_ns = piece.begin_ns,
                        .end_ns = piece.end_ns,
                        .category = piece.category,
                        .count = static_cast<std::int64_t>(piece.count),
                        .name = texts.of(std::string(schedule::name_of(first.kind))),
                        .detail = texts.of(place_of(first))};
        for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
            slice.bytes += operations[i].bytes;
        }
        lane.slices.push_back(slice);
    }
    return lane;
}

void add_lanes(Page& page, const Timeline& timeline, const Overlap& step) {
    std::vector<Pieces> pieces;
    for (const Lane& lane : timeline.lanes) {
        pieces.emplace_back();
        for (const Slice& slice : lane) {
            pieces.back().push_back(
                {slice.begin_ns, slice.end_ns, static_cast<std::uint32_t>(group_of(slice.id.kind))});
        }
    }
    const DrawnLanes drawn = condense(pieces, kMostDrawnSlices);
    PageLanes lanes{
        .unit = "operations", .categories = {}, .lanes = {}, .texts = {}, .resolution_ns = drawn.resolution_ns};
    for (int i = 0; i < kGroups; ++i) {
        const auto group = static_cast<Group>(i);
        const bool present = step.group_ns[static_cast<std::size_t>(i)] > 0;
        lanes.categories.push_back({present ? std::string(name_of(group)) : "", color_of(group)});
    }
    for (std::size_t engine = 0; engine < timeline.lanes.size(); ++engine) {
        if (!timeline.lanes[engine].empty()) {
            lanes.lanes.push_back(lane_of(static_cast<schedule::Engine>(engine), timeline.lanes[engine],
                                          drawn.lanes[engine], lanes.texts));
        }
    }
    page.heading("Timeline");
    page.lanes(lanes);
    for (const MemoryTrack& track : timeline.memory) {
        page.heading(track.tier + " in use");
        page.memory(track);
    }
}

void add_sections(Page& page, const Timeline& timeline) {
    const std::vector<Section> sections = sections_of(timeline);
    std::int64_t longest_ns = 1;
    for (const Section& section : sections) {
        longest_ns = std::max(longest_ns, section.end_ns - section.begin_ns);
    }
    Table table{{"<chunk", "seconds", "compute", "exposed", "idle", "copied", ""}, {}};
    for (const Section& section : sections) {
        const Overlap overlap = overlap_within(timeline, section.begin_ns, section.end_ns);
        table.rows.push_back({section.stage == Stage::kOptimizer
                                  ? std::string(name_of(section.stage))
                                  : fmt::format("{}, chunk {}", name_of(section.stage), section.chunk),
                              text_of_ns(overlap.total_ns), text_of_ns(overlap.compute_ns),
                              text_of_ns(overlap.exposed_ns), text_of_ns(overlap.idle_ns),
                              format_bytes_short(overlap.host_to_device.bytes + overlap.device_to_host.bytes),
                              bar_of(overlap, longest_ns)});
    }
    page.heading("Overlap by chunk");
    page.table(table);
}

}  // namespace

std::string html_report(const Timeline& timeline, const ReportText& text) {
    const Overlap step = overlap_within(timeline, 0, timeline.end_ns());
    Page page(text.title, text.facts, {0, timeline.end_ns()});
    add_step(page, step);
    add_groups(page, step);
    add_lanes(page, timeline, step);
    add_sections(page, timeline);
    return page.html();
}

}  // namespace oomb::timeline
