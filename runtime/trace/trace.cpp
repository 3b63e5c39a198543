#include "runtime/trace/trace.hpp"

#include <fmt/format.h>
#include <algorithm>

#include <iterator>

#include "runtime/trace/names.hpp"

namespace oomb::trace {

std::vector<std::string> engine_names() {
    std::vector<std::string> names;
    for (int engine = 0; engine < schedule::kEngines; ++engine) {
        names.emplace_back(name_of(static_cast<schedule::Engine>(engine)));
    }
    return names;
}

std::vector<std::string> kind_names() {
#define OOMB_KIND_NAME(name, text) text,
    return {OOMB_OPERATION_KINDS(OOMB_KIND_NAME)};
#undef OOMB_KIND_NAME
}

bool are_first_of(const std::vector<std::string>& names, const std::vector<std::string>& known) {
    return names.size() <= known.size() && std::equal(names.begin(), names.end(), known.begin());
}

std::string header_line(const TraceHeader& header) {
    const nlohmann::ordered_json json = {{"format", kTraceFormat},    {"version", kTraceFormatVersion},
                                         {"program", header.program}, {"device", header.device},
                                         {"clock", header.clock},     {"engines", engine_names()},
                                         {"kinds", kind_names()},     {"plan", header.plan}};
    return json.dump() + "\n";
}

std::string step_line(std::int64_t step) {
    return fmt::format("{{\"step\":{}}}\n", step);
}

// The id in hexadecimal: not every reader of JSON keeps 64 bits of a number.
void append_record_line(const TraceRecord& record, std::string& lines) {
    fmt::format_to(std::back_inserter(lines), "[\"{:016x}\",{},{},{},{},{}]\n", pack(record.id),
                   static_cast<int>(record.engine), record.begin_ns, record.end_ns - record.begin_ns, record.bytes,
                   record.pages);
}

namespace {

// Ascending pages as ranges: "0 3-7 12".
void append_ranges(const std::int32_t* pages, std::int64_t count, std::string& text) {
    for (std::int64_t i = 0; i < count;) {
        std::int64_t end = i + 1;
        while (end < count && pages[end] == pages[end - 1] + 1) {
            ++end;
        }
        fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : " ", pages[i]);
        if (end - i > 1) {
            fmt::format_to(std::back_inserter(text), "-{}", pages[end - 1]);
        }
        i = end;
    }
}

}  // namespace

void append_lists_line(const ListsRecord& record, std::string& lines) {
    fmt::format_to(std::back_inserter(lines), "{{\"sequence\":{},\"layer\":{},\"query_page\":{},\"lists\":[",
                   record.sequence, record.layer, record.query_page);
    for (std::int64_t i = 0; i < std::ssize(record.lists); i += record.length) {
        lines += i == 0 ? "\"" : ",\"";
        append_ranges(record.lists.data() + i, record.length, lines);
        lines += "\"";
    }
    lines += "]}\n";
}

}  // namespace oomb::trace
