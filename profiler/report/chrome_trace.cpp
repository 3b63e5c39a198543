#include "profiler/report/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "profiler/analysis/call_sums.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {
namespace {

constexpr std::int64_t kHostProcess = std::int64_t{1} << 30;  // past every device's number, and viewers hold 31 bits
constexpr std::int64_t kCallProcess = kHostProcess + 1;

std::string quoted_text(std::string_view text) {
    return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string microseconds(std::int64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

struct Track {
    std::int64_t process = 0, thread = 0;
    int lane = 0;
    auto operator<=>(const Track&) const = default;
};

class Events {
  public:
    explicit Events(std::int64_t zero_ns) : zero_ns_(zero_ns) {}

    void process(std::int64_t process, std::string_view name) {
        add(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process,
                        quoted_text(name)));
    }
    void slice(const Track& track, std::string_view track_name, std::string_view name, std::int64_t begin_ns,
               std::int64_t end_ns, const std::string& arguments) {
        const auto [number, is_new] = tracks_.try_emplace(track, static_cast<int>(tracks_.size()) + 1);
        if (is_new) {
            const std::string lane = track.lane > 0 ? fmt::format(", lane {}", track.lane + 1) : "";
            add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                            track.process, number->second, quoted_text(fmt::format("{}{}", track_name, lane))));
        }
        add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{{}}}}})", track.process,
                        number->second, microseconds(begin_ns - zero_ns_), microseconds(end_ns - begin_ns),
                        quoted_text(name), arguments));
    }
    void counter(std::int64_t process, std::string_view name, std::int64_t at_ns, double value) {
        add(fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{"GB/s":{:.3f}}}}})", process,
                        microseconds(at_ns - zero_ns_), quoted_text(name), value));
    }
    std::string finish() { return R"({"displayTimeUnit":"ms","traceEvents":[)" + text_ + "\n]}\n"; }

  private:
    void add(const std::string& event) { text_ += (text_.empty() ? "\n" : ",\n") + event; }

    std::int64_t zero_ns_;
    std::map<Track, int> tracks_;
    std::string text_;
};

struct Work {
    std::int64_t begin_ns = 0, end_ns = 0;
    Place place;
    std::string name, arguments;
};

// The argument of a piece of work that an operation of oomb-train asked for.
std::string operation_argument(const Profile& profile, std::uint32_t correlation) {
    const auto id = profile.operation_of(correlation);
    return id ? fmt::format(R"(,"operation":{})", quoted_text(schedule::to_text(*id))) : "";
}

std::vector<Work> work_of(const Profile& profile) {
    std::vector<Work> all;
    std::unordered_map<StringId, std::string> names;
    for (const Kernel& k : profile.kernels) {
        std::string& name = names[k.name];
        name = name.empty() ? demangled(profile.text(k.name)) : name;
        all.push_back({k.begin_ns, k.end_ns, k.place, name,
                       fmt::format(R"("grid":"{} x {} x {}","block":"{} x {} x {}","registers":{}{})", k.grid_x,
                                   k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z, k.registers,
                                   operation_argument(profile, k.correlation))});
    }
    for (const Copy& c : profile.copies) {
        all.push_back({c.begin_ns, c.end_ns, c.place, fmt::format("copy {}", name_of(c.kind)),
                       fmt::format(R"("bytes":{},"pieces":{},"from":"{}","to":"{}"{})", c.bytes, c.pieces,
                                   name_of(c.from), name_of(c.to), operation_argument(profile, c.correlation))});
    }
    for (const Memset& m : profile.memsets) {
        all.push_back({m.begin_ns, m.end_ns, m.place, "memset",
                       fmt::format(R"("bytes":{}{})", m.bytes, operation_argument(profile, m.correlation))});
    }
    std::stable_sort(all.begin(), all.end(), [](const Work& a, const Work& b) { return a.begin_ns < b.begin_ns; });
    return all;
}

struct Range {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint32_t thread = 0;
    StringId name = 0, domain = 0;
};

// Begin and end of a range have one id; a range whose other half is not in the file is left out.
std::vector<Range> ranges_of(const Profile& profile) {
    std::vector<Range> ranges;
    std::unordered_map<std::uint32_t, const Marker*> open;
    for (const Marker& marker : profile.markers) {
        if (marker.kind == MarkerKind::kInstant) {
            ranges.push_back({marker.at_ns, marker.at_ns, marker.thread, marker.name, marker.domain});
        } else if (marker.kind == MarkerKind::kBegin) {
            open[marker.id] = &marker;
        } else if (const auto begin = open.find(marker.id); begin != open.end()) {
            ranges.push_back({begin->second->at_ns, marker.at_ns, begin->second->thread, begin->second->name,
                              begin->second->domain});
            open.erase(begin);
        }
    }
    std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
        return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    return ranges;
}

// Driver calls lie within runtime calls of the same thread.
void add_calls(const Profile& profile, Events& events) {
    if (!profile.calls.empty()) {
        events.process(kCallProcess, "CUDA calls");
    }
    for (const ApiCall& call : profile.calls) {
        const std::string result = call.result == 0 ? "" : fmt::format(R"(,"result":{})", call.result);
        events.slice({kCallProcess, call.thread, 0}, fmt::format("thread {}", call.thread),
                     call_name(profile.text(call.name)), call.begin_ns, call.end_ns,
                     fmt::format(R"("correlation":{}{})", call.correlation, result));
    }
}

// A value holds from its time on: each sample is drawn at its begin.
void add_counters(const Profile& profile, Events& events) {
    for (const Counter& sample : profile.counters) {
        events.counter(sample.device, counter_title(profile.text(sample.name)), sample.begin_ns,
                       static_cast<double>(sample.value) / static_cast<double>(sample.end_ns - sample.begin_ns));
    }
}

template <class List>
std::int64_t first_begin_ns(const List& list) {
    return list.empty() ? kMostNumber : list.front().begin_ns;
}

}  // namespace

int Lanes::place(std::int64_t begin_ns, std::int64_t end_ns) {
    std::size_t lane = 0;
    while (lane < ends_.size() && ends_[lane] > begin_ns) {
        ++lane;
    }
    ends_.resize(std::max(ends_.size(), lane + 1));
    ends_[lane] = end_ns;
    return static_cast<int>(lane);
}

std::string chrome_trace(const Profile& profile) {
    const std::vector<Work> work = work_of(profile);
    const std::vector<Range> ranges = ranges_of(profile);
    const std::int64_t zero = std::min({first_begin_ns(work), first_begin_ns(ranges), first_begin_ns(profile.calls),
                                        first_begin_ns(profile.counters)});
    Events events(zero);
    for (const Device& device : profile.devices) {
        events.process(device.device, fmt::format("device {}, {}", device.device, profile.text(device.name)));
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, Lanes> streams;
    for (const Work& w : work) {
        const int lane = streams[{w.place.device, w.place.stream}].place(w.begin_ns, w.end_ns);
        events.slice({w.place.device, w.place.stream, lane}, fmt::format("stream {}", w.place.stream), w.name,
                     w.begin_ns, w.end_ns, w.arguments);
    }
    if (!ranges.empty()) {
        events.process(kHostProcess, "NVTX ranges");
    }
    // Ranges of one thread and domain nest, and viewers draw nesting; those of two domains need not.
    for (const Range& r : ranges) {
        events.slice({kHostProcess, static_cast<std::int64_t>((r.domain << 32) + r.thread), 0},
                     fmt::format("thread {} {}", r.thread, profile.text(r.domain)), profile.text(r.name), r.begin_ns,
                     r.end_ns, "");
    }
    add_calls(profile, events);
    add_counters(profile, events);
    return events.finish();
}

}  // namespace oomb::profiler
