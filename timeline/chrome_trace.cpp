#include "timeline/chrome_trace.hpp"

#include <fmt/format.h>

#include "timeline/overlap.hpp"

namespace oomb::timeline {
namespace {

constexpr int kProcess = 1;
constexpr int kSectionTrack = schedule::kEngines;

// Microseconds with the digits of a nanosecond.
std::string microseconds(std::int64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

class Events {
  public:
    void track(int track, std::string_view name) {
        add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})", kProcess, track, name);
        add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})", kProcess, track,
            track);
    }

    void slice(int track, const Slice& slice) {
        const schedule::OperationId& id = slice.id;
        add(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}","args":{{"phase":"{}","sequence":{},)"
            R"("chunk":{},"layer":{},"part":{},"bytes":{},"pages":{}}}}})",
            kProcess, track, microseconds(slice.begin_ns), microseconds(slice.end_ns - slice.begin_ns),
            schedule::name_of(id.kind), name_of(group_of(id.kind)), schedule::name_of(id.phase), id.sequence, id.chunk,
            id.layer, id.part, slice.bytes, slice.pages);
    }

    void section(const Section& section) {
        add(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{} {}","cat":"section"}})", kProcess,
            kSectionTrack, microseconds(section.begin_ns), microseconds(section.end_ns - section.begin_ns),
            name_of(section.stage), section.chunk);
    }

    void memory(const MemoryTrack& track, const MemoryPoint& point) {
        std::string parts;
        for (std::size_t i = 0; i < track.parts.size(); ++i) {
            parts += fmt::format(R"({}"{}":{})", i > 0 ? "," : "", track.parts[i], point.bytes[i]);
        }
        add(R"({{"ph":"C","pid":{},"ts":{},"name":"{} in use","args":{{{}}}}})", kProcess, microseconds(point.at_ns),
            track.tier, parts);
    }

    std::string finish() { return R"({"displayTimeUnit":"ms","traceEvents":[)" + text_ + "\n]}\n"; }

  private:
    template <class... T>
    void add(fmt::format_string<T...> format, T&&... values) {
        text_ += text_.empty() ? "\n" : ",\n";
        fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
    }

    std::string text_;
};

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
    Events events;
    for (int engine = 0; engine < schedule::kEngines; ++engine) {
        const Lane& lane = timeline.lanes[static_cast<std::size_t>(engine)];
        if (lane.empty()) {
            continue;
        }
        events.track(engine, schedule::name_of(static_cast<schedule::Engine>(engine)));
        for (const Slice& slice : lane) {
            events.slice(engine, slice);
        }
    }
    events.track(kSectionTrack, "chunks");
    for (const Section& section : sections_of(timeline)) {
        events.section(section);
    }
    for (const MemoryTrack& track : timeline.memory) {
        for (const MemoryPoint& point : thinned(track, kMostMemoryPoints).points) {
            events.memory(track, point);
        }
    }
    return events.finish();
}

}  // namespace oomb::timeline
