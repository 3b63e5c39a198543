#include <charconv>
#include <limits>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/trace/names.hpp"
#include "runtime/trace/trace.hpp"

namespace oomb::trace {
namespace {

constexpr std::int64_t kMostLine_bytes = std::int64_t{16} << 20;
constexpr std::int64_t kMostListed = std::int64_t{1}
                                     << 22;  // pages that one line's lists name: a few letters name many
constexpr std::int64_t kMostQueryPage = std::int64_t{1} << 31;
constexpr std::int64_t kMost_ns = std::int64_t{1} << 62;  // begin + duration stays a 64-bit number

schedule::OperationId read_id(const JsonNode& node) {
    const std::string text = node.as_string();
    std::uint64_t packed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), packed, 16);
    if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size()) {
        node.refuse("16 hexadecimal digits");
    }
    const schedule::OperationId id = schedule::unpack(packed);
    if (static_cast<std::size_t>(id.kind) >= kind_names().size()) {
        node.refuse("an id whose kind the header names");
    }
    return id;
}

TraceRecord read_record(const JsonNode& node, std::int64_t step) {
    constexpr std::size_t kFields = 6;
    if (node.as_array().size() != kFields) {
        node.refuse("[id, engine, begin, duration, bytes, pages]");
    }
    TraceRecord record;
    record.step = step;
    record.id = read_id(node.item(0));
    record.engine = static_cast<schedule::Engine>(node.item(1).as_integer(0, schedule::kEngines - 1));
    record.begin_ns = node.item(2).as_integer(0, kMost_ns);
    record.end_ns = record.begin_ns + node.item(3).as_integer(0, kMost_ns);
    record.bytes = node.item(4).as_integer(0);
    record.pages = node.item(5).as_integer(0);
    return record;
}

// A number as this program writes it: digits, no sign, no zero before others. Moves `at` behind it and `after`.
bool take_number(std::string_view text, std::size_t& at, char after, std::int64_t most, std::int64_t& number) {
    const char* const begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    const bool plain = error == std::errc{} && *begin != '-' && (*begin != '0' || end == begin + 1);
    at = static_cast<std::size_t>(end - text.data()) + 1;
    return plain && number <= most && at <= text.size() && *end == after;
}

// A line exactly as append_record_line() writes it. Any other way to write it, and whatever is wrong with it, is left
// to the reader of JSON, which takes ten times as long.
bool take_record(std::string_view line, TraceRecord& record) {
    constexpr std::size_t kDigits = 16, kNumbers = kDigits + 4;  // behind [" and ",
    std::uint64_t packed = 0;
    if (line.size() <= kNumbers || line.substr(0, 2) != "[\"" || line.substr(kDigits + 2, 2) != "\",") {
        return false;
    }
    const char* const digits = line.data() + 2;
    if (std::from_chars(digits, digits + kDigits, packed, 16).ptr != digits + kDigits) {
        return false;
    }
    record.id = schedule::unpack(packed);
    std::int64_t engine = 0, duration = 0;
    std::size_t at = kNumbers;
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (static_cast<int>(record.id.kind) >= schedule::kKinds ||
        !take_number(line, at, ',', schedule::kEngines - 1, engine) ||
        !take_number(line, at, ',', kMost_ns, record.begin_ns) || !take_number(line, at, ',', kMost_ns, duration) ||
        !take_number(line, at, ',', kMost, record.bytes) || !take_number(line, at, ']', kMost, record.pages)) {
        return false;
    }
    record.engine = static_cast<schedule::Engine>(engine);
    record.end_ns = record.begin_ns + duration;
    return at == line.size();
}

// "0 3-7 12": appends the pages, each beyond the one before and below `end`.
void read_ranges(const JsonNode& node, std::int64_t end, std::vector<std::int32_t>& pages) {
    const std::string text = node.as_string();
    const char *at = text.data(), *const stop = at + text.size();
    const auto read = [&](std::int64_t least) {
        std::int64_t page = 0;
        const auto [next, error] = std::from_chars(at, stop, page);
        if (error != std::errc{} || page < least || page >= end) {
            node.refuse(fmt::format("ascending pages below {}, as \"0 3-7 12\"", end));
        }
        at = next;
        return page;
    };
    for (std::int64_t before = -1; at != stop || before < 0;) {
        const std::int64_t first = read(before + 1);
        before = first;
        if (at != stop && *at == '-') {
            ++at;
            before = read(first + 1);
        }
        if (std::ssize(pages) + before - first >= kMostListed) {
            node.refuse(fmt::format("lists that name at most {} pages in a line", kMostListed));
        }
        for (std::int64_t page = first; page <= before; ++page) {
            pages.push_back(static_cast<std::int32_t>(page));
        }
        if (at != stop && (*at++ != ' ' || at == stop)) {
            node.refuse("pages with one blank between them, as \"0 3-7 12\"");
        }
    }
}

ListsRecord read_lists(const JsonNode& node, std::int64_t step) {
    constexpr std::size_t kKeys = 4;
    if (node.value().size() != kKeys) {
        node.refuse("sequence, layer, query_page and lists");
    }
    ListsRecord record;
    record.step = step;
    record.sequence = node.at("sequence").as_integer(0, (std::int64_t{1} << 12) - 1);
    record.layer = node.at("layer").as_integer(0, (std::int64_t{1} << 9) - 1);
    record.query_page = node.at("query_page").as_integer(1, kMostQueryPage);
    const JsonNode lists = node.at("lists");
    if (lists.as_array().size() == 0) {
        lists.refuse("a list for each query page of the group");
    }
    for (std::size_t i = 0; i < lists.size(); ++i) {
        const std::int64_t before = std::ssize(record.lists);
        read_ranges(lists.item(i), record.query_page, record.lists);
        record.length = i == 0 ? std::ssize(record.lists) : record.length;
        if (std::ssize(record.lists) - before != record.length) {
            lists.item(i).refuse(fmt::format("{} pages, as many as the line's first list has", record.length));
        }
    }
    return record;
}

void check_names(const JsonNode& node, const std::vector<std::string>& known) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < node.as_array().size(); ++i) {
        names.push_back(node.item(i).as_string());
    }
    if (!are_first_of(names, known)) {
        node.refuse("the names of this program's version; read the trace with the version that wrote it");
    }
}

}  // namespace

std::string TraceReader::place() const {
    return fmt::format("{}, line {}", path_.string(), line_);
}

bool TraceReader::read_line(std::string& line) {
    line.clear();
    for (int letter = file_.get(); letter != std::ifstream::traits_type::eof(); letter = file_.get()) {
        if (letter == '\n') {
            ++line_;
            return true;
        }
        line.push_back(static_cast<char>(letter));
        if (static_cast<std::int64_t>(line.size()) > kMostLine_bytes) {
            fail<FileError>("{}, line {}: longer than {} bytes, which no line of a trace is", path_.string(), line_ + 1,
                            kMostLine_bytes);
        }
    }
    if (file_.bad()) {
        fail<FileError>("{}: reading failed after line {}", path_.string(), line_);
    }
    truncated_ = !line.empty();
    return false;
}

TraceReader::TraceReader(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) {
        fail<FileError>("{}: cannot be opened", path_.string());
    }
    std::string line;
    if (!read_line(line)) {
        fail<FileError>("{}: no whole line, but the first one of a trace is its header", path_.string());
    }
    read_header(line);
}

void TraceReader::read_header(const std::string& line) {
    const Json json = parse_json(line, place());
    const JsonNode root(json, place());
    if (root.as_object().at("format").as_string() != kTraceFormat) {
        root.at("format").refuse(fmt::format("\"{}\"", kTraceFormat));
    }
    const std::int64_t version = root.at("version").as_integer();
    if (version != 1 && version != kTraceFormatVersion) {  // version 1 had no lists, all else is the same
        root.at("version").refuse(fmt::format("version 1 or {}, which this program reads", kTraceFormatVersion));
    }
    check_names(root.at("engines"), engine_names());
    check_names(root.at("kinds"), kind_names());
    header_ = {.program = root.at("program").as_string(),
               .device = root.at("device").as_string(),
               .clock = root.at("clock").as_string(),
               .plan = root.at("plan").as_object().value()};
}

bool TraceReader::next(TraceRecord& record) {
    while (read_line(text_)) {
        if (step_ != 0 && take_record(text_, record)) {
            record.step = step_;
            return true;
        }
        const Json json = parse_json(text_, place());
        const JsonNode node(json, place());
        if (json.is_array()) {
            if (step_ == 0) {
                node.refuse("a step before its operations");
            }
            record = read_record(node, step_);
            return true;
        }
        if (node.as_object().has("lists")) {
            if (step_ == 0) {
                node.refuse("a step before its lists");
            }
            ListsRecord lists = read_lists(node, step_);
            if (on_lists) {
                on_lists(std::move(lists));
            }
            continue;
        }
        if (json.size() != 1) {
            node.refuse("a step line, a line of lists or the array of an operation");
        }
        step_ = node.at("step").as_integer(step_ + 1);
    }
    return false;
}

Trace read_trace(const std::filesystem::path& path) {
    TraceReader reader(path);
    Trace trace;
    trace.header = reader.header();
    reader.on_lists = [&](ListsRecord&& lists) { trace.lists.push_back(std::move(lists)); };
    for (TraceRecord record; reader.next(record);) {
        trace.records.push_back(record);
    }
    trace.truncated = reader.truncated();
    return trace;
}

}  // namespace oomb::trace
