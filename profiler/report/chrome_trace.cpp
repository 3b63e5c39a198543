#include "profiler/report/chrome_trace.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <unordered_map>

#include "profiler/analysis/call_sums.hpp"
#include "profiler/analysis/sums.hpp"
#include "profiler/analysis/tracks.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {
namespace {

constexpr std::int64_t kHostProcess = std::int64_t{1} << 30;  // past every device's number, and viewers hold 31 bits
constexpr std::int64_t kCallProcess = kHostProcess + 1;

std::string quoted_text(std::string_view text) {
    return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Digits of a nanosecond; a time before the zero is negative.
std::string microseconds(std::int64_t ns) {
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

class Events {
  public:
    explicit Events(std::int64_t zero_ns) : zero_ns_(zero_ns) {}

    void process(std::int64_t process, std::string_view name) {
        add(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process,
                        quoted_text(name)));
    }
    void track(std::int64_t process, std::size_t track, std::string_view name) {
        add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", process, track,
                        quoted_text(name)));
    }
    void slice(std::int64_t process, std::size_t track, const timeline::DrawnPiece& piece, std::string_view name,
               const std::string& arguments) {
        add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{{}}}}})", process, track,
                        microseconds(piece.begin_ns - zero_ns_), microseconds(piece.end_ns - piece.begin_ns),
                        quoted_text(name), arguments));
    }
    void counter(std::int64_t process, std::string_view name, std::int64_t at_ns, double value) {
        add(fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{"GB/s":{:.3f}}}}})", process,
                        microseconds(at_ns - zero_ns_), quoted_text(name), value));
    }
    std::string finish(const std::string& metadata) {
        return fmt::format(R"({{"displayTimeUnit":"ms","metadata":{{{}}},"traceEvents":[{})", metadata, text_) +
               "\n]}\n";
    }

  private:
    void add(const std::string& event) { text_ += (text_.empty() ? "\n" : ",\n") + event; }

    std::int64_t zero_ns_;
    std::string text_;
};

// The argument of a piece of work that an operation of oomb-train asked for.
std::string operation_argument(const Profile& profile, std::uint32_t correlation) {
    const auto id = profile.operation_of(correlation);
    return id ? fmt::format(R"(,"operation":{})", quoted_text(schedule::to_text(*id))) : "";
}

class Writer {
  public:
    Writer(const Profile& profile, const Tracks& tracks, Events& events)
        : profile_(profile), tracks_(tracks), events_(events) {}

    void write(std::int64_t process, std::size_t number, const Slice& slice, const timeline::DrawnPiece& piece) {
        switch (slice.work) {
            case Work::kKernel: {
                const Kernel& k = profile_.kernels[slice.index];
                std::string& name = names_[k.name];
                name = name.empty() ? demangled(profile_.text(k.name)) : name;
                events_.slice(process, number, piece, name,
                              fmt::format(R"("grid":"{} x {} x {}","block":"{} x {} x {}","registers":{}{})", k.grid_x,
                                          k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z, k.registers,
                                          operation_argument(profile_, k.correlation)));
                return;
            }
            case Work::kCopy: {
                const Copy& c = profile_.copies[slice.index];
                events_.slice(process, number, piece, fmt::format("copy {}", name_of(c.kind)),
                              fmt::format(R"("bytes":{},"pieces":{},"from":"{}","to":"{}"{})", c.bytes, c.pieces,
                                          name_of(c.from), name_of(c.to), operation_argument(profile_, c.correlation)));
                return;
            }
            case Work::kMemset: {
                const Memset& m = profile_.memsets[slice.index];
                events_.slice(process, number, piece, "memset",
                              fmt::format(R"("bytes":{}{})", m.bytes, operation_argument(profile_, m.correlation)));
                return;
            }
            case Work::kRange:
                events_.slice(process, number, piece, profile_.text(tracks_.ranges[slice.index].name), "");
        }
    }

  private:
    const Profile& profile_;
    const Tracks& tracks_;
    Events& events_;
    std::unordered_map<StringId, std::string> names_;
};

void name_processes(const Profile& profile, const Tracks& tracks, Events& events) {
    for (const Device& device : profile.devices) {
        events.process(device.device, fmt::format("device {}, {}", device.device, profile.text(device.name)));
    }
    if (!tracks.ranges.empty()) {
        events.process(kHostProcess, "NVTX ranges");
    }
}

// Driver calls lie within runtime calls of the same thread. Shorter ones than the resolution are left out.
void add_calls(const Profile& profile, std::int64_t resolution_ns, Events& events) {
    std::set<std::uint32_t> threads;
    for (const ApiCall& call : profile.calls) {
        if (call.end_ns - call.begin_ns < resolution_ns) {
            continue;
        }
        if (threads.empty()) {
            events.process(kCallProcess, "CUDA calls");
        }
        if (threads.insert(call.thread).second) {
            events.track(kCallProcess, call.thread, fmt::format("thread {}", call.thread));
        }
        const std::string result = call.result == 0 ? "" : fmt::format(R"(,"result":{})", call.result);
        events.slice(kCallProcess, call.thread, {.begin_ns = call.begin_ns, .end_ns = call.end_ns},
                     call_name(profile.text(call.name)),
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

}  // namespace

ChromeTrace chrome_trace(const Profile& profile, std::int64_t zero_ns, std::int64_t most) {
    const Tracks tracks = tracks_of(profile, TracksBy::kStream);
    std::vector<timeline::Pieces> pieces;
    for (const Track& track : tracks.all) {
        pieces.emplace_back();
        for (const Slice& slice : track.slices) {
            pieces.back().push_back({slice.begin_ns, slice.end_ns, 0});
        }
    }
    const timeline::DrawnLanes drawn = condense(pieces, most);
    ChromeTrace trace{.text = {}, .slices = tracks.slices, .resolution_ns = drawn.resolution_ns};
    Events events(zero_ns);
    name_processes(profile, tracks, events);
    Writer writer(profile, tracks, events);
    for (std::size_t t = 0; t < tracks.all.size(); ++t) {
        const Track& track = tracks.all[t];
        const std::int64_t process = track.host ? kHostProcess : std::int64_t{track.device};
        events.track(process, t + 1, track.name);
        for (const timeline::DrawnPiece& piece : drawn.lanes[t]) {
            if (piece.count == 1) {
                writer.write(process, t + 1, track.slices[piece.first], piece);
            } else {
                events.slice(process, t + 1, piece, fmt::format("{} slices", piece.count),
                             fmt::format(R"("slices":{},"busy_ns":{})", piece.count, piece.busy_ns));
            }
        }
        trace.written += std::ssize(drawn.lanes[t]);
    }
    add_calls(profile, drawn.resolution_ns, events);
    add_counters(profile, events);
    trace.text = events.finish(fmt::format(R"("slices":{},"written":{},"joined_below_ns":{})", trace.slices,
                                           trace.written, trace.resolution_ns));
    return trace;
}

}  // namespace oomb::profiler
