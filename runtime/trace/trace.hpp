#pragma once
// The trace of a run: for each operation its engine, begin, end, bytes and pages. JSON Lines, documented in
// docs/trace-format.md. Whoever runs operations, on a device or on a simulated clock, writes these lines; whoever
// looks at a run reads them.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/json.hpp"
#include "runtime/schedule/operation.hpp"

namespace oomb::trace {

inline constexpr std::string_view kTraceFormat = "oomb-trace";
inline constexpr int kTraceFormatVersion = 2;

// What the first line says beside format, version and the names of engines and kinds.
struct TraceHeader {
    std::string program;  // who wrote it: "oomb-train 0.1.0 (commit)"
    std::string device;   // "cpu", "NVIDIA H200"
    std::string clock;    // "steady": measured; "simulated"
    Json plan;            // schedule::to_json
};

// One operation. Times are since the clock's start, the same for all engines.
struct TraceRecord {
    std::int64_t step = 0;  // optimizer step, from 1
    schedule::OperationId id;
    schedule::Engine engine = schedule::Engine::kCompute;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;  // not before begin_ns
    std::int64_t bytes = 0;   // moved between the tiers
    std::int64_t pages = 0;

    bool operator==(const TraceRecord&) const = default;
};

// Top-K: the pages that each query page of a group attends to (docs/topk.md), once per group and sequence, when the
// first operation on them is issued. The gradient phase uses the same lists.
struct ListsRecord {
    std::int64_t step = 0;
    std::int64_t sequence = 0;  // within the optimizer step
    std::int64_t layer = 0;
    std::int64_t query_page = 0;      // of the sequence, the group's first
    std::int64_t length = 0;          // pages of each list
    std::vector<std::int32_t> lists;  // [query pages, length], each ascending, all before the first query page

    bool operator==(const ListsRecord&) const = default;
};

// Lines, each with its newline. A record's step is not in its own line, but in the step line before it.
std::string header_line(const TraceHeader& header);
std::string step_line(std::int64_t step);
void append_record_line(const TraceRecord& record, std::string& lines);
void append_lists_line(const ListsRecord& record, std::string& lines);

// Reads a trace from begin to end in the memory of one line. Throws FileError, naming file, line and what was found:
// another format or version, other engines or kinds than this program's, anything that is no record. A last line
// without its newline is what a killed run leaves: it is dropped, and truncated() says so.
class TraceReader {
  public:
    explicit TraceReader(const std::filesystem::path& path);  // reads the header

    const TraceHeader& header() const { return header_; }
    bool next(TraceRecord& record);  // false at the end
    // Called by next() for each line of lists that stands before the record; may be empty.
    std::function<void(ListsRecord&&)> on_lists;
    bool truncated() const { return truncated_; }
    std::int64_t lines() const { return line_; }  // whole ones read so far

  private:
    bool read_line(std::string& line);
    void read_header(const std::string& line);
    std::string place() const;

    std::filesystem::path path_;
    std::ifstream file_;
    TraceHeader header_;
    std::string text_;
    std::int64_t line_ = 0;
    std::int64_t step_ = 0;
    bool truncated_ = false;
};

// All of it at once, for traces that fit into memory.
struct Trace {
    TraceHeader header;
    std::vector<TraceRecord> records;
    std::vector<ListsRecord> lists;
    bool truncated = false;
};
Trace read_trace(const std::filesystem::path& path);

}  // namespace oomb::trace
