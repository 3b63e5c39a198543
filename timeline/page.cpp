#include "timeline/page.hpp"

#include <fmt/format.h>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "timeline/page_template.hpp"

namespace oomb::timeline {
namespace {

constexpr std::string_view kPlaceholder = "@OOMB_PAGE_DATA@";

Json bar_json(const Bar& bar) {
    Json parts = Json::array();
    for (const BarPart& part : bar.parts) {
        parts.push_back({part.name, part.ns, static_cast<int>(part.color)});
    }
    return {{"parts", parts}, {"whole_ns", bar.whole_ns}};
}

Json cell_json(const Cell& cell) {
    const auto* bar = std::get_if<Bar>(&cell);
    return bar != nullptr ? bar_json(*bar) : Json(std::get<std::string>(cell));
}

// Six numbers a slice, as page.js reads them; the name of slices drawn together is minus their number.
Json slices_json(const std::vector<PageSlice>& slices) {
    Json numbers = Json::array();
    for (const PageSlice& slice : slices) {
        numbers.push_back(slice.begin_ns);
        numbers.push_back(slice.end_ns - slice.begin_ns);
        numbers.push_back(slice.category);
        numbers.push_back(slice.count == 1 ? slice.name : -slice.count);
        numbers.push_back(slice.detail);
        numbers.push_back(slice.bytes);
    }
    return numbers;
}

// A script element ends at the first "</": nothing that a user named may hold one.
std::string for_script(const Json& data) {
    std::string text = data.dump(-1, ' ', true, Json::error_handler_t::replace);
    for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) {
        text.replace(at, 2, "<\\/");
    }
    return text;
}

}  // namespace

std::int64_t Texts::of(const std::string& text) {
    const auto [found, is_new] = numbers_.emplace(text, std::ssize(texts_));
    if (is_new) {
        texts_.push_back(text);
    }
    return found->second;
}

std::string text_of_ns(std::int64_t ns) {
    return format_duration(static_cast<double>(ns) * 1e-9);
}

std::string text_of_share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "";
}

Page::Page(std::string_view title, std::string_view facts, const Interval& time_ns)
    : data_({{"title", title},
             {"facts", facts},
             {"begin_ns", time_ns.begin},
             {"end_ns", time_ns.end},
             {"panels", Json::array()}}) {}

void Page::notes(const std::vector<std::string>& lines) {
    if (!lines.empty()) {
        data_["panels"].push_back({{"kind", "notes"}, {"lines", lines}});
    }
}

void Page::heading(std::string_view text, std::string_view below) {
    data_["panels"].push_back({{"kind", "heading"}, {"text", text}, {"below", below}});
}

void Page::bar(const Bar& bar) {
    data_["panels"].push_back(bar_json(bar));
    data_["panels"].back()["kind"] = "bar";
}

void Page::table(const Table& table) {
    Json rows = Json::array();
    for (const std::vector<Cell>& row : table.rows) {
        rows.push_back(Json::array());
        for (const Cell& cell : row) {
            rows.back().push_back(cell_json(cell));
        }
    }
    data_["panels"].push_back({{"kind", "table"}, {"head", table.head}, {"rows", rows}});
}

void Page::lanes(const PageLanes& lanes) {
    Json panel = {{"kind", "lanes"},
                  {"unit", lanes.unit},
                  {"categories", Json::array()},
                  {"texts", lanes.texts.all()},
                  {"resolution_ns", lanes.resolution_ns},
                  {"lanes", Json::array()}};
    for (const Category& category : lanes.categories) {
        panel["categories"].push_back({category.name, static_cast<int>(category.color)});
    }
    for (const PageLane& lane : lanes.lanes) {
        panel["lanes"].push_back({{"group", lane.group}, {"name", lane.name}, {"slices", slices_json(lane.slices)}});
    }
    data_["panels"].push_back(std::move(panel));
}

void Page::memory(const MemoryTrack& track) {
    Json points = Json::array();
    for (const MemoryPoint& point : thinned(track, kMostMemoryPoints).points) {
        points.push_back(Json::array({point.at_ns}));
        for (const std::int64_t bytes : point.bytes) {
            points.back().push_back(bytes);
        }
    }
    data_["panels"].push_back({{"kind", "memory"},
                               {"tier", track.tier},
                               {"parts", track.parts},
                               {"points", points},
                               {"reserved_bytes", track.reserved_bytes}});
}

void Page::roofline(const RooflineChart& chart) {
    Json panel = {{"kind", "roofline"}, {"roofs", Json::array()}, {"points", Json::array()}};
    for (const RooflineChart::Roof& roof : chart.roofs) {
        panel["roofs"].push_back({{"name", roof.name}, {"per_second", roof.per_second}, {"memory", roof.memory}});
    }
    for (const RooflineChart::Point& point : chart.points) {
        panel["points"].push_back({{"name", point.name},
                                   {"text", point.text},
                                   {"group", point.group},
                                   {"intensity", point.flops / point.bytes},
                                   {"per_second", point.flops / point.seconds},
                                   {"color", static_cast<int>(point.color)}});
    }
    data_["panels"].push_back(std::move(panel));
}

std::string Page::html() const {
    std::string page(kPageTemplate);
    const std::size_t place = page.find(kPlaceholder);
    require(place != std::string::npos, "the page's template has no place for its data");
    return page.replace(place, kPlaceholder.size(), for_script(data_));
}

}  // namespace oomb::timeline
