#include "timeline/html_report.hpp"

#include <map>

#include "runtime/core/error.hpp"
#include "runtime/trace/names.hpp"
#include "timeline/condense.hpp"
#include "timeline/overlap.hpp"
#include "timeline/report_template.hpp"

namespace oomb::timeline {
namespace {

constexpr std::string_view kPlaceholder = "@OOMB_TIMELINE_DATA@";

Json copy_json(const CopyTime& copy) {
    return {{"busy_ns", copy.busy_ns},
            {"hidden_ns", copy.hidden_ns},
            {"exposed_ns", copy.exposed_ns},
            {"bytes", copy.bytes}};
}

Json overlap_json(const Overlap& overlap) {
    return {{"total_ns", overlap.total_ns},
            {"compute_ns", overlap.compute_ns},
            {"exposed_ns", overlap.exposed_ns},
            {"idle_ns", overlap.idle_ns},
            {"host_to_device", copy_json(overlap.host_to_device)},
            {"device_to_host", copy_json(overlap.device_to_host)},
            {"group_ns", overlap.group_ns}};
}

// The texts "gradient, chunk 3, layer 1", each once.
class Places {
  public:
    std::int64_t of(const schedule::OperationId& id) {
        const bool whole = id.phase == schedule::Phase::kOptimizer;
        const std::string text =
            whole ? "optimizer"
                  : fmt::format("{}, chunk {}, layer {}", schedule::name_of(id.phase), id.chunk, id.layer);
        const auto [found, is_new] = numbers_.emplace(text, std::ssize(numbers_));
        if (is_new) {
            texts_.push_back(text);
        }
        return found->second;
    }
    const Json& texts() const { return texts_; }

  private:
    std::map<std::string, std::int64_t> numbers_;
    Json texts_ = Json::array();
};

// Six numbers a slice, as the page reads them.
Json lanes_json(const DrawnLanes& drawn, Places& places) {
    Json lanes = Json::array();
    for (std::size_t engine = 0; engine < drawn.lanes.size(); ++engine) {
        Json slices = Json::array();
        for (const DrawnSlice& slice : drawn.lanes[engine]) {
            slices.push_back(slice.begin_ns);
            slices.push_back(slice.end_ns - slice.begin_ns);
            slices.push_back(static_cast<int>(slice.group));
            slices.push_back(slice.operations == 1 ? static_cast<std::int64_t>(slice.first.kind) : -slice.operations);
            slices.push_back(places.of(slice.first));
            slices.push_back(slice.bytes);
        }
        lanes.push_back({{"name", schedule::name_of(static_cast<schedule::Engine>(engine))}, {"slices", slices}});
    }
    return lanes;
}

Json memory_json(const MemoryTrack& track) {
    Json points = Json::array();
    for (const MemoryPoint& point : thinned(track, kMostMemoryPoints).points) {
        points.push_back(Json::array({point.at_ns}));
        for (const std::int64_t bytes : point.bytes) {
            points.back().push_back(bytes);
        }
    }
    return {{"tier", track.tier}, {"parts", track.parts}, {"points", points}, {"reserved_bytes", track.reserved_bytes}};
}

Json sections_json(const Timeline& timeline) {
    Json list = Json::array();
    for (const Section& section : sections_of(timeline)) {
        Json entry = overlap_json(overlap_within(timeline, section.begin_ns, section.end_ns));
        entry["name"] = section.stage == Stage::kOptimizer
                            ? std::string(name_of(section.stage))
                            : fmt::format("{}, chunk {}", name_of(section.stage), section.chunk);
        list.push_back(std::move(entry));
    }
    return list;
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

std::string html_report(const Timeline& timeline, const ReportText& text) {
    const DrawnLanes drawn = condense(timeline, kMostDrawnSlices);
    Places places;
    Json data = {{"title", text.title},
                 {"facts", text.facts},
                 {"end_ns", timeline.end_ns()},
                 {"step", overlap_json(overlap_within(timeline, 0, timeline.end_ns()))},
                 {"kinds", trace::kind_names()},
                 {"groups", Json::array()},
                 {"lanes", lanes_json(drawn, places)},
                 {"resolution_ns", drawn.resolution_ns},
                 {"memory", Json::array()},
                 {"sections", sections_json(timeline)}};
    data["places"] = places.texts();
    for (int group = 0; group < kGroups; ++group) {
        data["groups"].push_back(name_of(static_cast<Group>(group)));
    }
    for (const MemoryTrack& track : timeline.memory) {
        data["memory"].push_back(memory_json(track));
    }
    std::string page(kReportTemplate);
    const std::size_t place = page.find(kPlaceholder);
    require(place != std::string::npos, "the report's template has no place for its data");
    return page.replace(place, kPlaceholder.size(), for_script(data));
}

}  // namespace oomb::timeline
