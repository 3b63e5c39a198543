#include "trainer/run/trace_file.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/version.hpp"

namespace oomb::trainer {
namespace {

constexpr double kNanoseconds = 1e9;

std::int64_t nanoseconds(double seconds) {
    return std::llround(seconds * kNanoseconds);
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path) : calls_(FileCalls::system()), file_(path, calls_) {}

TraceFile::~TraceFile() {
    try {
        flush();
    } catch (const Error&) {  // it is an error already that ends the run before its own flush
    }
}

void TraceFile::begin(const schedule::Plan& plan, const std::string& device) {
    const BuildInfo& build = build_info();
    lines_ = trace::header_line({.program = fmt::format("oomb-train {} ({})", build.version, build.commit),
                                 .device = device,
                                 .clock = "steady",
                                 .plan = Json::parse(schedule::to_json(plan))});
    flush();
}

void TraceFile::begin_step(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    lines_ += trace::step_line(step);
}

// Begin and end are rounded each for itself, so operations that touch still touch.
void TraceFile::write(const OperationRecord& record) {
    const std::lock_guard lock(mutex_);
    trace::append_record_line({.id = record.operation->id,
                               .engine = record.operation->engine,
                               .begin_ns = nanoseconds(record.begin_seconds),
                               .end_ns = nanoseconds(record.end_seconds),
                               .bytes = record.bytes,
                               .pages = record.pages},
                              lines_);
    if (lines_.size() >= kBuffer_bytes) {
        write_out();
    }
}

void TraceFile::write(const GroupLists& lists) {
    const std::lock_guard lock(mutex_);
    trace::append_lists_line({.sequence = lists.sequence,
                              .layer = lists.layer,
                              .query_page = lists.query_page,
                              .length = lists.length,
                              .lists = {lists.lists.begin(), lists.lists.end()}},
                             lines_);
    if (lines_.size() >= kBuffer_bytes) {
        write_out();
    }
}

void TraceFile::flush() {
    const std::lock_guard lock(mutex_);
    write_out();
}

void TraceFile::write_out() {
    file_.write(std::exchange(lines_, {}));
}

}  // namespace oomb::trainer
